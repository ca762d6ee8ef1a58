"""Mutants of the recovery code: who notices them, and that the list of those that nobody can notice does not rot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crashtests import mutants, mutation
from crashtests.__main__ import main
from crashtests.forkserver.client import ForkServer
from crashtests.mutate import Mutant
from crashtests.mutation import Examiner, baseline, telling_tests
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
    """What is no module any more would be noticed by anybody; and every module has mutants."""
    compiled = set()
    for each in mutants.all_mutants(mutants.MODULES):
        compile(each.mutated, each.place, "exec")
        compiled.add(each.module)

    assert {f"harness.{name}" for name in mutants.MODULES} == compiled


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


UNIT = Path(__file__).parent / "unit"
# What speaks of something else than recovery.
OTHERS = {
    *("test_anthropic", "test_anthropic_live", "test_anthropic_types", "test_bench"),
    *("test_demo", "test_packaging", "test_readme"),
}


def test_all_tests_of_the_harness_are_asked() -> None:
    """No file is left out for being new, and those marked slow, of which a session without --slow runs none, are so."""
    slow = {path.stem for path in UNIT.glob("test_*.py") if "pytest.mark.slow" in path.read_text()}

    assert {path.stem for path in UNIT.glob("test_*.py")} == {*mutation.FILES, *mutation.SLOW, *OTHERS}
    assert slow - OTHERS == set(mutation.SLOW)


def test_the_tests_that_tell_come_first() -> None:
    """Those that execute a line of the mutant, first those that execute little else; for an import nobody is first."""
    inside = mutant("reconcile", "return Move.RUN_AGAIN", "return None")
    line = f"reconcile.{inside.lines[0]}"
    covered = {
        "much": frozenset({line, "loop.1"}),
        "little": frozenset({line}),
        "elsewhere": frozenset({f"loop.{inside.lines[0]}"}),
    }

    assert ["little", "much"] == telling_tests(covered, inside)
    assert [] == telling_tests(covered, mutant("loop", "TURNS_MAX = 50", "TURNS_MAX = 51"))


@pytest.mark.slow
def test_what_a_test_executes(tmp_path: Path) -> None:
    """The lines of the harness are written down test by test, and nothing else is."""
    path = tmp_path / "covered.json"
    with ForkServer("crashtests.mutant_tests:run", life_timeout_s=60) as server:
        death = server.run({"covered": str(path), "tests": ["crashtests/unit/test_reconcile.py"], "options": []})
    executed: dict[str, list[str]] = json.loads(path.read_text())

    assert 0 == death.exit_status
    assert {True} == {test.startswith("crashtests/unit/test_reconcile.py::test_") for test in executed}
    assert {"reconcile"} <= {line.partition(".")[0] for lines in executed.values() for line in lines}


@pytest.mark.slow
def test_who_notices() -> None:
    """A script alone, a kill (or a test before it), a gate of the session, the harness's own tests."""
    chosen = (
        mutant("settle", "self._store = store", "pass"),
        mutant("reconcile", "return Move.ASK_VERIFY if tool.verify is not None else Move.SAY_UNKNOWN", "return None"),
        mutant("settle", 'crash_point("after-verify")', "pass"),
        mutant("reconcile", "return Move.RUN_AGAIN", "return None"),
    )
    with Examiner(baseline(TASKS)) as examiner:
        verdicts = [examiner.examine(each) for each in chosen]
        quick = [examiner.examine(each, quick=True).by for each in chosen[:2]]

    assert ["campaign", "campaign", "campaign", "tests"] == [verdict.by for verdict in verdicts]
    assert ["campaign", "tests"] == quick
    says = [
        "('v1 json marks [mail] end')",
        " > started.renamed:1')",
        "gate: json after-verify was never passed",
        "FAILED",
    ]
    assert [] == [(verdict, part) for verdict, part in zip(verdicts, says, strict=True) if part not in verdict.how]
