"""`--replay`: exactly one schedule, with its timeline, pass or fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crashtests.campaign import Campaign
from crashtests.schedule import parse
from crashtests.timeline import render


def test_replay(
    campaign: Campaign, request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> None:
    """Every guarantee holds for the schedule given, and each of its kills fires."""
    line = request.config.option.replay
    if line is None:
        pytest.fail("no schedule to replay: give it with --replay '<schedule>'", pytrace=False)
    evidence, violations = campaign.check(parse(line), "replay")
    record_property("timeline", render(evidence, violations))

    if evidence.overruns:
        never = ", ".join(str(life.planned) for life in evidence.lives if life.planned and not life.killed_at)
        pytest.fail(f"never reached: {never}; what happened instead: '{evidence.executed}'", pytrace=False)
    if violations:
        pytest.fail("\n".join(map(str, violations)), pytrace=False)
