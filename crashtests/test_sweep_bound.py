"""The bound of the sweep: as many kills as are counted independently, and a proof that fails if one is left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from crashtests.evidence import Evidence
from crashtests.execute import Executor, executor
from crashtests.kinds import SWEPT, TOOL_KINDS
from crashtests.schedule import Kill, Schedule, parse
from crashtests.stories import at, ending, evidence, life
from crashtests.subjects.naive import Naive
from crashtests.subjects.ours import Harness
from crashtests.sweep import BOUNDS, Task, sweep, tasks


@pytest.fixture(scope="module")
def ours() -> Iterator[Executor]:
    with executor(warm_up=False) as execute:
        yield execute


@pytest.fixture(scope="module")
def naive() -> Iterator[Executor]:
    with executor("crashtests.subjects.naive:Naive") as execute:
        yield execute


def kills_of(task: Task, execute: Executor) -> list[str]:
    """The schedules of a task's sweep in which something is killed, in order. The end of each loop repeats its base."""
    evidences = sweep(task, lambda base, k: execute.execute(base, kill_at=k))
    return list(dict.fromkeys(str(evidence.schedule) for evidence in evidences if evidence.schedule.kills))


def points_by_hand(schedule: Schedule) -> int:
    """How many crash points an uninterrupted run of our harness passes, counted from what it does on paper."""
    write = 5 if schedule.store == "json" else 2
    total = (10 if schedule.store == "json" else 5) + 1  # the ledger's file and the scene's, or one database
    for turn in schedule.turns:
        total += 2 + write + 1  # asked and answered, point A
        for call in turn.calls:
            kind = TOOL_KINDS[call]
            total += (write + 1) * (schedule.marks and kind.effect != "read_only")
            total += 2 * kind.known + kind.known + write + 1  # before and after the effect, after the tool, its outcome
        total += write + 1  # point B
    return total + 2 + write + 1  # the closing response, the final save


COUNTED = [
    "v1 json marks [read] end",
    "v1 sqlite no-marks [pay] end",
    "v1 json no-marks [put mail] end",
    "v1 sqlite marks [pay][ghost] end",
]


def test_points_counted_by_hand(ours: Executor) -> None:
    """A life that is left alone passes as many crash points as the harness's own description has it pass."""
    counted = {line: points_by_hand(parse(line)) for line in COUNTED}

    assert counted == {line: len(ours.execute(parse(line)).lives[0].passed) for line in COUNTED}


def test_one_kill_at_every_point(ours: Executor) -> None:
    """A sweep has one kill for each crash point, each at another, in the order in which they are passed."""
    base = parse("v1 sqlite marks end")
    expected = [f"{base} > {kill}" for kill in ours.execute(base).points(0)]

    assert expected == kills_of(Task(base, 1), ours)
    assert points_by_hand(base) == len(expected)


def test_two_kills_at_every_point(naive: Executor) -> None:
    """Each kill of a first life is followed by a kill at every crash point of the life that comes after it.

    With a tool that is not there the naive loop passes 4 crash points, 2 a request. Killed at one of the first 2 it has
    saved nothing and starts again, so passes 4 once more; killed at one of the last 2 it passes those 2 once more.
    """
    found = kills_of(Task(parse("v1 json marks [ghost] end"), 2), naive)

    assert 4 + 2 * 4 + 2 * 2 == len(found)


def test_second_kills_follow_states_and_not_kills() -> None:
    """Kills that leave the same bytes and the same world are followed once; every state that is left is followed."""
    asked = []

    def execute(base: Schedule, k: int | None) -> Evidence:
        """Lives of 4 crash points, of which the 2nd and the 3rd leave the same state."""
        assert k is not None
        asked.append((len(base.kills), k))
        kills = (*base.kills, *([Kill("point", k)] if k <= 4 else []))
        lives = [life(at(*["point"] * kill.n), killed=str(kill)) for kill in kills if isinstance(kill, Kill)]
        lives += [life(at(*["point"] * 4), ending())] if k > 4 else []
        return replace(evidence(str(replace(base, kills=kills)), *lives), branch=2 if k == 3 else k)

    list(sweep(Task(parse("v1 json marks end"), 2), execute))
    assert [4 + 1, 3 * (4 + 1)] == [len([kills for kills, _ in asked if kills == before]) for before in (0, 1)]

    asked.clear()
    list(sweep(Task(parse("v1 json marks end"), 2), lambda base, k: replace(execute(base, k), branch=None)))
    assert [4 + 1, 4 * (4 + 1)] == [len([kills for kills, _ in asked if kills == before]) for before in (0, 1)]


@pytest.mark.parametrize("skipped", [1, 3, 6])
def test_a_point_that_is_skipped(naive: Executor, skipped: int) -> None:
    """A loop that leaves a crash point out comes to the end one kill too early, and says so."""
    base = parse("v1 json marks [pay] end")

    def execute(schedule: Schedule, k: int | None) -> Evidence:
        assert k is not None
        return naive.execute(schedule, kill_at=k + (k >= skipped))

    with pytest.raises(
        AssertionError, match=r"6 kills after the first 0 crash points, but a life that is left alone passes 7"
    ):
        list(sweep(Task(base, 1), execute))


def test_every_script_of_the_bound() -> None:
    """The default sweep holds every script that its bounds name, on every store and protocol if they say so."""
    bases = {task.base for task in tasks(Harness(), "default", 5)}
    scripts = {base.turns for base in bases if not base.kills}
    one_call = [base for base in bases if base.turns in {parse(f"v1 json marks [{kind}] end").turns for kind in SWEPT}]

    for first, second in product(SWEPT, repeat=2):
        assert parse(f"v1 json marks [{first} {second}] end").turns in scripts
        assert parse(f"v1 json marks [{first}][{second}] end").turns in scripts
    for kind, store, protocol in product(SWEPT, ("json", "sqlite"), ("marks", "no-marks")):
        if kind != "read" or protocol == "marks":
            assert parse(f"v1 {store} {protocol} [{kind}] end") in one_call


def test_every_script_with_all_options_over_the_seeds() -> None:
    """Sixteen seeds take every script of one kill with every store and protocol; each of them about as many on json."""
    sweeps = [{task.base for task in tasks(Harness(), "default", seed) if not task.base.kills} for seed in range(16)]
    larger = {base for base in set[Schedule]().union(*sweeps) if sum(len(turn.calls) for turn in base.turns) == 2}

    for first, second, between in product(SWEPT, SWEPT, (" ", "][")):
        for store, protocol in product(("json", "sqlite"), ("marks", "no-marks")):
            if protocol == "marks" or (first, second) != ("read", "read"):
                assert parse(f"v1 {store} {protocol} [{first}{between}{second}] end") in larger
    assert {3, 4, 5, 6} == {len([base for base in bases & larger if base.store == "json"]) for bases in sweeps}


@pytest.mark.parametrize("profile", BOUNDS)
def test_simplest_first(profile: str) -> None:
    """Tasks come in order of size, each base once, so that the first failure of a sweep is a simple one."""
    for subject in (Harness(), Naive()):
        bases = [task.base for task in tasks(subject, profile, 3)]

        assert bases == sorted(bases, key=Schedule.size)
        assert len(bases) == len(set(bases))
