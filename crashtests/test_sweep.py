"""The sweep, in shares: every script of the bound, killed at every crash point it passes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crashtests.campaign import Campaign
from crashtests.evidence import Evidence
from crashtests.failure import broken, reported
from crashtests.schedule import Schedule
from crashtests.sweep import sweep, tasks

SHARES = 24


@pytest.mark.parametrize("share", range(SHARES))
def test_sweep(
    share: int,
    campaign: Campaign,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    """Every guarantee holds wherever a script of this share is killed."""
    options = request.config.option

    def execute(base: Schedule, k: int | None) -> Evidence:
        evidence, violations = campaign.check(base, "sweep", kill_at=k)
        if violations:
            raise broken(campaign, evidence.schedule, violations, options.subject)
        return evidence

    mine = tasks(campaign.executor.subject, options.crash_profile, options.crash_seed)[share::SHARES]
    with reported(record_property):
        kills = [evidence.schedule for task in mine for evidence in sweep(task, execute) if evidence.schedule.kills]

    assert len(kills) >= len(mine)
