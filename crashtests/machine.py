"""The machine: a Hypothesis state machine that draws longer scripts and several lives, sharded by seed.

A rule adds one thing to a schedule and reads nothing of the outside world; the schedule is executed once it is whole.
Hypothesis only draws: its database and its shrinking are off, since a schedule is shrunk by passes that know what it
is (shrink.py), and a failure must not depend on the Hypothesis version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from crashtests import strategies
from crashtests.schedule import Hindrance, Kill, Schedule, Turn
from crashtests.subject import Subject

TURNS_MAX = 4
KILLS_MAX = 3
STEPS_MAX = 8

SHARDS = 8
SCHEDULES_PER_SHARD = {"default": 8, "soak": 40, "probe": 4}


def shard_seed(session_seed: int, shard: int, rounds: int = 0) -> int:
    """The seed of one round of a shard: every one its own, all from the one that the session prints."""
    return (session_seed * SHARDS + shard) * 1_000_003 + rounds


def run_shard(judge: Callable[[Schedule], None], subject: Subject, *, seed_number: int, schedules: int) -> None:
    """Draw `schedules` schedules from `seed_number` and give each to `judge`, which raises for one that fails."""
    turns, ends = strategies.turns(subject.understands), strategies.ends(limits_turns=subject.limits_turns)

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.schedule = Schedule(())

        @initialize(options=strategies.options(subject.stores, subject.protocols), turn=turns)
        def begin(self, options: tuple[str, bool, bool], turn: Turn) -> None:
            store, marks, over = options
            self.schedule = Schedule((turn,), store=store, marks=marks, over=over)

        @precondition(lambda self: len(self.schedule.turns) < TURNS_MAX)
        @rule(turn=turns)
        def add_turn(self, turn: Turn) -> None:
            self.schedule = replace(self.schedule, turns=(*self.schedule.turns, turn))

        @precondition(lambda self: len(self.schedule.kills) < KILLS_MAX)
        @rule(kill=strategies.kills)
        def add_kill(self, kill: Kill | None) -> None:
            self.schedule = replace(self.schedule, kills=(*self.schedule.kills, kill))

        if subject.hindrances:

            @precondition(lambda self: 0 < len(self.schedule.kills) < KILLS_MAX)
            @rule(hindrance=strategies.hindrances(subject.hindrances))
            def hinder(self, hindrance: Hindrance) -> None:
                self.schedule = replace(self.schedule, kills=(*self.schedule.kills, hindrance))

        @rule(end=ends)
        def end_with(self, end: str) -> None:
            self.schedule = replace(self.schedule, end=end)

        def teardown(self) -> None:
            judge(_with_power(self.schedule, subject))

    run_state_machine_as_test(seed(seed_number)(Machine), settings=_settings(schedules))


def _with_power(schedule: Schedule, subject: Subject) -> Schedule:
    """The schedule with no loss of power where none can be simulated: what is drawn must not depend on that."""
    if schedule.store in subject.power_stores:
        return schedule
    return schedule.without_losses


def _settings(schedules: int) -> Any:
    return settings(
        max_examples=schedules,
        stateful_step_count=STEPS_MAX,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
