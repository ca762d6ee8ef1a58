"""Which schedules a matrix runs again, and how often: on runs that are made up."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from crashtests.matrix import campaign, judge, plan, verdicts
from crashtests.matrix.campaign import CANDIDATES_MAX, CONFIRM_RUNS, FIRE_TRIES, STUBBORN_RUNS, Runner
from crashtests.schedule import Kill, parse
from crashtests.stories import Loose

LINES = [f"v1 json marks [pay] end > after-effect:{n}" for n in range(1, CANDIDATES_MAX + 3)]

Runs = Callable[[dict[str, Any]], list[dict[str, Any]]]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Runs a plan of the lines given, each broken as its answers say in turn, the last of them for ever."""

    def run(answers: dict[str, list[set[str]]]) -> list[dict[str, Any]]:
        turns = {line: _and_so_on(each) for line, each in answers.items()}
        monkeypatch.setattr(plan, "items", lambda *_: iter([plan.Item(plan.KILL, parse(line)) for line in answers]))
        monkeypatch.setattr(judge, "broken", lambda evidence, *_: {key: ["so"] for key in next(turns[evidence.line])})
        execute: Any = SimpleNamespace(
            subject=Loose(),
            again=lambda schedule, cold: SimpleNamespace(
                schedule=schedule, line=str(schedule), overruns=0, lives=(), points=lambda place: []
            ),
            reference=lambda schedule: None,
        )
        runner = Runner(execute, io.StringIO(), until=float("inf"))
        runner.run()
        return [record for record in runner.records if record["part"] == verdicts.CONFIRM]

    return run


class Races(Loose):
    """It saves on threads of its own."""

    races = True


@pytest.mark.parametrize(("part", "tries"), [(plan.AGAIN, FIRE_TRIES + 1), (plan.DELAYED, 1), (plan.LOOP, 1)])
def test_until_it_fires(part: str, tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a subject that races a kill that was not reached is tried again, unless that it is not is no wonder."""
    item = plan.Item(part, parse(LINES[0]), must_fire=part != plan.LOOP)
    monkeypatch.setattr(plan, "items", lambda *_: iter([item]))
    monkeypatch.setattr(judge, "broken", lambda *_: {})
    never: Any = SimpleNamespace(schedule=parse(LINES[0]), overruns=1, lives=())
    execute: Any = SimpleNamespace(subject=Races(), again=lambda *_, **__: never, reference=lambda schedule: None)
    runner = Runner(execute, io.StringIO(), until=float("inf"))
    runner.run()

    assert tries == len(runner.records)


def _and_so_on(answers: list[set[str]]) -> Iterator[set[str]]:
    yield from answers
    while True:
        yield answers[-1]


def test_until_one_shows_it(runs: Runs) -> None:
    """The smallest is run again first; what breaks in every repetition ends the search."""
    found = runs({LINES[1]: [{"TOLD"}], LINES[0]: [{"TOLD"}]})

    assert [LINES[0]] * CONFIRM_RUNS == [record["planned"] for record in found]


def test_past_those_that_do_not(runs: Runs) -> None:
    """One that breaks in less than half of its repetitions is passed over for the next."""
    once, again = [{"TOLD"}, {"TOLD"}, set()], [{"TOLD"}, *[{"TOLD"}] * (CONFIRM_RUNS // 2), set()]
    found = runs({LINES[0]: once, LINES[1]: again, LINES[2]: [{"TOLD"}]})

    assert {LINES[0]: CONFIRM_RUNS, LINES[1]: CONFIRM_RUNS} == Counter(record["planned"] for record in found)
    assert 5 == verdicts.again(found, "TOLD", LINES[1]).n


def test_not_for_ever(runs: Runs) -> None:
    """Where none shows it again, so many are tried, and no more."""
    found = Counter(record["planned"] for record in runs({line: [{"TOLD"}, set()] for line in LINES}))

    assert set(LINES[:CANDIDATES_MAX]) == set(found)
    assert [STUBBORN_RUNS] + [CONFIRM_RUNS] * (CANDIDATES_MAX - 1) == [found[line] for line in LINES[:CANDIDATES_MAX]]


def test_once_for_all_guarantees(runs: Runs) -> None:
    """Repetitions count for every guarantee that the schedule broke."""
    found = runs({LINES[0]: [{"TOLD", "AT-MOST-ONCE"}]})

    assert CONFIRM_RUNS == len(found)
    assert all(verdicts.again(found, name, LINES[0]).shows for name in ("TOLD", "AT-MOST-ONCE"))


def test_whole_is_not_repeated(runs: Runs) -> None:
    """Nothing is run again where nothing was broken."""
    assert [] == runs({LINES[0]: [set()]})


@pytest.mark.parametrize(
    ("overruns", "alone", "lived_on", "fired"),
    [
        (0, False, 0, True),
        (1, False, 0, False),
        (0, True, 1, True),
        (0, True, 0, False),
    ],
)
def test_as_planned(overruns: int, alone: bool, lived_on: int, fired: bool) -> None:
    """A kill of the host alone that left nothing to live on was none, like one that never fired."""
    one = SimpleNamespace(killed_at=Kill("a", alone=alone), death=SimpleNamespace(lived_on=lived_on))
    evidence: Any = SimpleNamespace(overruns=overruns, lives=(one, SimpleNamespace(killed_at=None)))

    assert fired == campaign._as_planned(evidence)
