"""Losing power, in shares: small scripts, wherever they pass a crash point, with every loss that differs there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crashtests.campaign import Campaign
from crashtests.evidence import Evidence
from crashtests.failure import broken, reported
from crashtests.powerloss.bound import losses, tasks
from crashtests.schedule import Schedule

SHARES = 5


@pytest.mark.parametrize("share", range(SHARES))
def test_powerloss(
    share: int,
    campaign: Campaign,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    """Every guarantee holds wherever a script of this share loses power."""
    options, subject = request.config.option, campaign.executor.subject

    def execute(base: Schedule, k: int, loss: str) -> Evidence:
        evidence, violations = campaign.check(base, "power", kill_at=k, loss=loss)
        if violations:
            raise broken(campaign, evidence.schedule, violations, options.subject)
        return evidence

    mine = tasks(subject, options.crash_profile)[share::SHARES]
    if not subject.power_stores:
        pytest.skip(f"{subject.name} names no store on which its syncs can be seen (power_stores)")
    with reported(record_property):
        lost = [evidence.schedule for task in mine for evidence in losses(task, execute)]

    assert len(lost) >= len(mine)
