"""Verdicts and pages of a matrix: what a cell says of given records, and what makes it say nothing."""

from __future__ import annotations

from typing import Any

import pytest

from crashtests.matrix import judge, plan, verdicts
from crashtests.matrix.report import markdown
from crashtests.matrix.session import not_trusted
from crashtests.matrix.statistics import wilson

PAY = "v1 json marks [pay] end > after-effect:1"
PAY_TWICE = "v1 json marks [pay pay] end > after-effect:1"
TWICE = {"AT-MOST-ONCE": ["it happened twice"]}


def record(part: str = plan.KILL, planned: str = PAY, **more: Any) -> dict[str, Any]:
    """A run of which nothing is to be said."""
    return {"part": part, "planned": planned, "happened": planned, "fired": True, "broken": {}, "fault": "", **more}


def repeated(planned: str, n: int, of: int = 10) -> list[dict[str, Any]]:
    """A schedule that was run again, and broke in n of those runs."""
    return [record(verdicts.CONFIRM, planned, broken=TWICE if i < n else {}) for i in range(of)]


def cell(*records: dict[str, Any], guarantee: str = "AT-MOST-ONCE", **documents: str) -> dict[str, Any]:
    """The cell of a guarantee."""
    named = {name.replace("_", "-"): text for name, text in documents.items()}
    return verdicts.cells("some", records, {"NOTHING-LOST": "it is not shown"}, named)[guarantee]


@pytest.mark.parametrize(
    ("n", "of", "low", "high"), [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (3, 8, 0.1368, 0.6943)]
)
def test_wilson(n: int, of: int, low: float, high: float) -> None:
    """The interval is Wilson's, also where all or none were seen."""
    assert (low, high) == tuple(round(bound, 4) for bound in wilson(n, of))


def test_wilson_of_nothing() -> None:
    """Of no runs there is no rate."""
    with pytest.raises(ValueError, match="of=0"):
        wilson(0, 0)


def test_holds() -> None:
    """0 of N; the control, the confirming runs and the rivals do not count."""
    found = cell(record(), record(plan.LOOP), record(plan.CONTROL), record("confirm"), record(plan.RIVALS))

    assert {"n": 0, "of": 2, "verdict": "holds", "rate_at_most": 0.6576} == found


def test_broken() -> None:
    """n of N, with the smallest schedule, how often it broke when it was run again, and the line that repeats it."""
    found = cell(
        record(plan.PARALLEL, PAY_TWICE, broken=TWICE),
        record(broken=TWICE),
        record(),
        *repeated(PAY, 10),
        AT_MOST_ONCE="at least once",
    )

    assert ("broken", 2, 3, "at least once") == (found["verdict"], found["n"], found["of"], found["documented"])
    assert {
        "schedule": PAY,
        "says": "it happened twice",
        "replay": f"python -m crashtests replay '{PAY}' --subject some",
        "again": {"n": 10, "of": 10, "interval": [0.7225, 1.0]},
        "others": [],
    } == found["smallest"]


# Of one and two calls, broken in this many of ten when run again: which stands for the cell, and what its line says.
RACES: list[tuple[int, int, str, str]] = [
    (10, 10, PAY, "the smallest that shows it again: broken in 10 of 10 (95 % interval of the rate: 72 to 100 %)"),
    (5, 10, PAY, "the smallest that shows it again: broken in 5 of 10 "),
    (4, 5, PAY_TWICE, f"; smaller ones in fewer than half: `{PAY}` in 4 of 10"),
    (
        0,
        1,
        PAY_TWICE,
        "a race: of 2 schedules run again none broke in half; this one most often, in 1 of 10",
    ),
    (1, 1, PAY, "a race: of 2 schedules run again none broke in half; this one most often, in 1 of 10"),
    (0, 0, PAY, "seen 2 times in 3 runs, and never again in 20 more: a race; this schedule broke in 0 of 10 (95 %"),
]


@pytest.mark.parametrize(("one", "two", "line", "says"), RACES)
def test_a_race(one: int, two: int, line: str, says: str) -> None:
    """The smallest schedule that breaks in half of its repetitions stands for the cell, else what breaks most."""
    plan_runs = [record(plan.PARALLEL, PAY_TWICE, broken=TWICE), record(broken=TWICE), record()]
    runs = [*plan_runs, *repeated(PAY, one), *repeated(PAY_TWICE, two)]
    smallest = cell(*runs)["smallest"]

    assert line == smallest["schedule"]
    assert smallest["replay"].endswith(" --times 50 --guarantee AT-MOST-ONCE") == (smallest["again"]["n"] < 10)
    assert says in page_of(subject("some", *runs))


def test_a_race_of_one() -> None:
    """Where one schedule alone broke it, and does so seldom, its line says how seldom."""
    page = page_of(subject("some", record(broken=TWICE), *repeated(PAY, 2)))

    assert "  - a race: run again, it broke in 2 of 10 (95 % interval of the rate: 6 to 51 %)" in page


def test_candidates() -> None:
    """What broke it, as it happened: smallest first, of one size first what did so most often; of valid parts alone."""
    often = PAY.replace("after-effect", "tool-returned")
    loop = f"{PAY}{' > after-effect:1' * 3}"
    runs = [record(plan.LOOP, loop, happened=f"{PAY} > after-effect:1", broken=TWICE), record(broken=TWICE), record()]
    runs += [record(planned=often, broken=TWICE), record(plan.AGAIN, PAY_TWICE, broken=TWICE)]
    runs += [record(plan.AGAIN, loop, fired=False), record(plan.HOST, f"{PAY}@host", fired=True)]

    assert [often, PAY, f"{PAY} > after-effect:1"] == verdicts.candidates(runs, "AT-MOST-ONCE")
    assert [] == verdicts.candidates(runs, "TOLD")


def test_not_run_again() -> None:
    """Where there was no time for it, nothing is said of the rate, and the line is one to be tried more than once."""
    smallest = cell(record(broken=TWICE))["smallest"]

    assert {"n": 0, "of": 0} == smallest["again"]
    assert smallest["replay"].endswith(" --times 50 --guarantee AT-MOST-ONCE")


def test_a_confirmation_that_did_not_fire() -> None:
    """A repetition in which the kill was not reached shows nothing."""
    missed = [{**each, "fired": False} for each in repeated(PAY, 10)]

    assert 0 == verdicts.again(missed, "AT-MOST-ONCE", PAY).n


def test_a_kill_that_came_too_late() -> None:
    """One at a delay that found the life at its end counts for nothing, and makes nothing invalid."""
    late = record(plan.DELAYED, PAY.replace(":1", ":1+300"), fired=False)
    runs = [record(), late, record(plan.DELAYED, PAY.replace(":1", ":1+1"))]

    assert {"n": 0, "of": 2, "verdict": "holds", "rate_at_most": 0.6576} == cell(*runs)
    assert "Of the kills at a delay 1 came too late" in page_of(subject("some", *runs))


def test_a_kill_that_did_not_fire() -> None:
    """Its part is invalid and counts for nothing, unless the same kill fired in another run."""
    missed = record(plan.AGAIN, PAY_TWICE, fired=False, broken=TWICE)

    found = cell(record(), missed)
    assert ("holds", 1, {plan.AGAIN: [PAY_TWICE]}) == (found["verdict"], found["of"], found["invalid_parts"])
    assert "invalid" == cell(missed)["verdict"]
    again = cell(record(), missed, record(plan.AGAIN, PAY_TWICE))
    assert ("holds", 2) == (again["verdict"], again["of"])
    assert "invalid_parts" not in again


def test_what_cannot_be_judged() -> None:
    """It has a reason: none of the subject's kind can be, or no run came about."""
    assert {"verdict": "cannot", "why": "it is not shown"} == cell(record(), guarantee="NOTHING-LOST")
    assert "no run of it came about: " in cell(record(), guarantee=judge.ONE_OWNER)["why"]


def test_two_resumes() -> None:
    """Their guarantee counts them alone, and they have a command of their own."""
    found = cell(
        record(plan.RIVALS, hold="before-effect:1", broken={judge.ONE_OWNER: ["asked", "twice"]}),
        record(plan.RIVALS, fired=False, fault="never passed"),
        guarantee=judge.ONE_OWNER,
    )

    assert ("broken", 1, 1) == (found["verdict"], found["n"], found["of"])
    assert f"python -m crashtests rivals '{PAY}' --hold before-effect:1 --subject some" == found["smallest"]["replay"]
    assert "asked; twice" == found["smallest"]["says"]


def test_two_resumes_of_a_subject_that_races() -> None:
    """What its first life leaves is a matter of chance, so the line tries more than once."""
    run = record(plan.RIVALS, hold="before-effect:1", broken={judge.ONE_OWNER: ["asked"]})
    (once, often) = (verdicts.cells("some", [run], {}, {}, races=races)[judge.ONE_OWNER] for races in (False, True))

    assert once["smallest"]["replay"] + " --times 50" == often["smallest"]["replay"]


def test_a_subject_that_races_and_broke_every_time() -> None:
    """Ten of ten is no certainty where what is left is a matter of chance: the line runs until the guarantee breaks."""
    records = [record(broken=TWICE), *repeated(PAY, 10)]
    (once, often) = (verdicts.cells("some", records, {}, {}, races=races)["AT-MOST-ONCE"] for races in (False, True))

    assert once["smallest"]["replay"] + " --times 50 --guarantee AT-MOST-ONCE" == often["smallest"]["replay"]


def subject(name: str, *records: dict[str, Any]) -> dict[str, Any]:
    """Its part of matrix.json."""
    return {
        "name": name,
        "title": name,
        "date": "2026-12-01",
        "versions": {"frame": "1.2"},
        "control": verdicts.control(records),
        "cells": verdicts.cells(name, records, {}, {"AT-MOST-ONCE": "at least once"}),
        "parts": verdicts.by_part(records),
        "left_out": 2,
        "seconds_per_life": {"warm": 0.1, "cold": 1.0},
    }


def page_of(*subjects: dict[str, Any]) -> str:
    """Their page."""
    how = {"date": "2026-12-01", "python": "3.11", "machine": "Linux", "jobs": 2, "lives": 3, "seconds": 4.0}
    return markdown({**how, "not_installed": ["absent"], "subjects": list(subjects)})


def test_what_is_not_to_be_trusted() -> None:
    """A table in which ours is broken, the naive loop is whole, or anything is broken without a kill, says so."""
    assert [] == not_trusted([subject("ours-json", record()), subject("some", record(broken=TWICE))])
    assert [
        "ours-json is not whole: AT-MOST-ONCE",
        "the naive loop was not found to be broken: nothing else can be believed",
        f"some is broken without a kill: '{PAY}': it happened twice",
    ] == not_trusted(
        [
            subject("ours-json", record(broken=TWICE)),
            subject("naive", record()),
            subject("some", record(plan.CONTROL, broken=TWICE)),
        ]
    )


def test_the_page() -> None:
    """Every verdict is in its table, and below it what is needed to see it again."""
    page = page_of(subject("some", record(plan.CONTROL), record(broken=TWICE), record(plan.AGAIN, fired=False)))

    assert "| some | frame 1.2 | whole | **1/1** † ‡ | 0/1 ‡ |" in page
    assert "| some | 0/1 | 1/1 | - | invalid | - | - | - | - |" in page
    assert "Not installed, so not run: absent." in page
    assert f"  - `python -m crashtests replay '{PAY}' --subject some" in page
    assert "  - documented: at least once" in page
    assert "2 runs were left out" in page
