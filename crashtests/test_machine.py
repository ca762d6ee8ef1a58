"""The machine, in shards: longer scripts, several lives, each shard from a seed of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from crashtests.campaign import Campaign
from crashtests.failure import broken, reported
from crashtests.machine import SCHEDULES_PER_SHARD, SHARDS, run_shard, shard_seed
from crashtests.schedule import Schedule


@pytest.mark.parametrize("shard", range(SHARDS))
def test_machine(
    shard: int,
    campaign: Campaign,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    """Every guarantee holds for every schedule that this shard draws."""
    options, subject = request.config.option, campaign.executor.subject

    def judge(schedule: Schedule) -> None:
        if violations := campaign.violations(schedule, "machine"):
            raise broken(campaign, schedule, violations, options.subject)

    end = time.monotonic() + 60 * options.crash_minutes / SHARDS
    rounds = 0
    while rounds == 0 or (options.crash_profile == "soak" and time.monotonic() < end):
        number = shard_seed(options.crash_seed, shard, rounds)
        with reported(record_property):
            run_shard(judge, subject, seed_number=number, schedules=SCHEDULES_PER_SHARD[options.crash_profile])
        rounds += 1

    assert rounds > 0
