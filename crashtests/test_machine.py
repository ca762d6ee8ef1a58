"""The machine, in shards: longer scripts, several lives, each shard from a seed of its own."""

from __future__ import annotations

import time

import pytest

from crashtests.campaign import Campaign
from crashtests.failure import ContractBroken, report
from crashtests.machine import run_shard
from crashtests.schedule import Schedule
from crashtests.world import WORLD_POINTS

SHARDS = 8
SCHEDULES_PER_SHARD = 60


@pytest.mark.parametrize("shard", range(SHARDS))
def test_machine(shard: int, campaign: Campaign, request: pytest.FixtureRequest) -> None:
    """Every guarantee holds for every schedule that this shard draws."""
    options, subject = request.config.option, campaign.executor.subject

    def judge(schedule: Schedule) -> None:
        if violations := campaign.violations(schedule, "machine"):
            raise ContractBroken(report(campaign, schedule, violations, options.subject))

    own = [label for store in subject.stores for label in subject.labels(Schedule((), store=store))]
    end = time.monotonic() + 60 * options.crash_minutes / SHARDS
    rounds = 0
    while rounds == 0 or (options.crash_profile == "soak" and time.monotonic() < end):
        run_shard(
            judge,
            seed_number=(options.crash_seed * SHARDS + shard) * 1_000_003 + rounds,
            schedules=SCHEDULES_PER_SHARD,
            labels=list(dict.fromkeys([*own, *WORLD_POINTS])),
            stores=subject.stores,
            protocols=subject.protocols,
        )
        rounds += 1

    assert rounds > 0
