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
    return {"part": part, "planned": planned, "fired": True, "broken": {}, "fault": "", **more}


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
        *(record("confirm", broken=TWICE) for _ in range(10)),
        AT_MOST_ONCE="at least once",
    )

    assert ("broken", 2, 3, "at least once") == (found["verdict"], found["n"], found["of"], found["documented"])
    assert {
        "schedule": PAY,
        "says": "it happened twice",
        "replay": f"python -m crashtests replay '{PAY}' --subject some",
        "again": {"n": 10, "of": 10, "interval": [0.7225, 1.0]},
    } == found["smallest"]


def test_a_race() -> None:
    """What does not break every time is repeated until it does."""
    found = cell(record(broken=TWICE), record("confirm", broken=TWICE), record("confirm"))

    assert found["smallest"]["replay"].endswith(" --times 50")
    assert {"n": 1, "of": 2, "interval": [0.0945, 0.9055]} == found["smallest"]["again"]


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
    page = markdown(
        {
            "date": "2026-12-01",
            "python": "3.11",
            "machine": "Linux",
            "jobs": 2,
            "lives": 3,
            "seconds": 4.0,
            "not_installed": ["absent"],
            "subjects": [subject("some", record(plan.CONTROL), record(broken=TWICE), record(plan.AGAIN, fired=False))],
        }
    )

    assert "| some | frame 1.2 | whole | **1/1** † ‡ | 0/1 ‡ |" in page
    assert "| some | 0/1 | 1/1 | - | invalid | - | - |" in page
    assert "Not installed, so not run: absent." in page
    assert f"  - `python -m crashtests replay '{PAY}' --subject some" in page
    assert "  - documented: at least once" in page
    assert "2 runs were left out" in page
