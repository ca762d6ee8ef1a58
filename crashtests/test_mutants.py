"""Mutants of the recovery code: who notices them, and that the list of those that nobody can notice does not rot."""

from __future__ import annotations

import pytest

from crashtests import mutants
from crashtests.__main__ import main
from crashtests.mutate import Mutant
from crashtests.mutation import Examiner, baseline
from crashtests.schedule import parse
from crashtests.sweep import Task

TASKS = [Task(parse("v1 json marks [mail] end"), kills=1)]


def test_every_equivalent_mutant_is_there() -> None:
    """Each row stands for as many mutants as it says, and gives its reason; none is there twice."""
    everything = mutants.all_mutants(mutants.MODULES)
    rows = mutants.equivalents()

    assert [] == [row for row in rows if row.times != sum(row.is_of(mutant) for mutant in everything)]
    assert [] == [row for row in rows if not row.why.endswith(".")]
    assert len(rows) == len({(row.module, row.function, row.before, row.after) for row in rows})


@pytest.mark.slow
def test_every_mutant_can_be_compiled() -> None:
    """What is no module any more would be noticed by anybody."""
    for each in mutants.all_mutants(mutants.MODULES):
        compile(each.mutated, each.place, "exec")


def test_what_is_mutated_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    """A module that is none of the recovery code, or no number of jobs, is a usage error in one line."""
    assert 2 == main(["mutants", "--module", "cli"])
    assert 2 == main(["mutants", "--jobs", "0"])

    assert (
        "crashtests: module 'cli' is none of loop, settle, reconcile, ledger, checkpoint, store, json_store, "
        "sqlite_store, durable\ncrashtests: --jobs 0: must be at least 1\n"
    ) == capsys.readouterr().err


def mutant(module: str, before: str, after: str) -> Mutant:
    """The one mutant that makes `after` of `before`."""
    (found,) = (m for m in mutants.all_mutants([module]) if (m.before, m.after) == (before, after))
    return found


@pytest.mark.slow
def test_who_notices() -> None:
    """A script alone, a kill, a gate of the session, the harness's own tests."""
    chosen = (
        mutant("loop", "scene.pending = []", "pass"),
        mutant("reconcile", "return Move.ASK_VERIFY if tool.verify is not None else Move.SAY_UNKNOWN", "return None"),
        mutant("settle", 'crash_point("after-verify")', "pass"),
        mutant("reconcile", "return Move.RUN_AGAIN", "return None"),
    )
    with Examiner(baseline(TASKS)) as examiner:
        verdicts = [examiner.examine(each) for each in chosen]

    assert ["campaign", "campaign", "campaign", "tests"] == [verdict.by for verdict in verdicts]
    says = [
        "v1 json marks [mail] end",
        " > started.renamed:1')",
        "gate: json after-verify was never passed",
        "FAILED",
    ]
    assert [] == [(verdict, part) for verdict, part in zip(verdicts, says, strict=True) if part not in verdict.how]
