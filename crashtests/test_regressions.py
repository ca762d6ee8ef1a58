"""The schedules worth keeping: they run first, and each of their kills must fire."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crashtests.campaign import Campaign
from crashtests.failure import broken, reported
from crashtests.regressions import regressions
from crashtests.schedule import Schedule


@pytest.mark.parametrize("schedule", regressions(), ids=str)
def test_regression(schedule: Schedule, campaign: Campaign, record_property: Callable[[str, object], None]) -> None:
    """Every guarantee holds, and what was planned is what happened: an overrun would test nothing."""
    with reported(record_property):
        evidence, violations = campaign.check(schedule, "regressions")
        if violations:
            raise broken(campaign, schedule, violations)

    assert str(schedule) == str(evidence.schedule)
