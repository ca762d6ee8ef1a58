"""Mutants of the recovery code: who notices them, and that the list of those that nobody can notice does not rot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crashtests import mutants, mutation
from crashtests.__main__ import main
from crashtests.mutate import Mutant
from crashtests.mutation import Examiner, Verdict, baseline
from crashtests.schedule import parse
from crashtests.sweep import Task

TASKS = [Task(parse("v1 json marks [mail] end"), kills=1), Task(parse("v1 sqlite no-marks [put] end"), kills=1)]


def test_every_equivalent_mutant_is_there() -> None:
    """Each row stands for as many mutants as it says, and gives its reason; none is there twice."""
    everything = mutants.all_mutants(mutants.MODULES)
    rows = mutants.equivalents()

    assert [] == [row for row in rows if row.times != sum(row.is_of(mutant) for mutant in everything)]
    assert [] == [row for row in rows if not row.why.endswith(".")]
    assert len(rows) == len({(row.module, row.function, row.before, row.after) for row in rows})


def test_what_is_mutated_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    """A module that is none of the recovery code, or no number of jobs, is a usage error in one line."""
    assert 2 == main(["mutants", "--module", "cli"])
    assert 2 == main(["mutants", "--jobs", "0"])

    assert (
        "crashtests: module 'cli' is none of loop, settle, reconcile, ledger, checkpoint, store, json_store, "
        "sqlite_store, durable\ncrashtests: --jobs 0: must be at least 1\n"
    ) == capsys.readouterr().err


@pytest.fixture(scope="module")
def examiner() -> Iterator[Examiner]:
    """An examiner with a small campaign."""
    with Examiner(baseline(TASKS)) as made:
        yield made


def mutant(module: str, before: str, after: str) -> Mutant:
    """The one mutant that makes `after` of `before`."""
    (found,) = (m for m in mutants.all_mutants([module]) if (m.before, m.after) == (before, after))
    return found


@pytest.mark.slow
def test_who_notices(examiner: Examiner) -> None:
    """The scripts alone, a kill, a gate, the harness's own tests, and for an edit that changes nothing: nobody."""
    by_script = mutant("loop", "scene.pending = []", "pass")
    by_kill = mutant("reconcile", "return Move.RUN_AGAIN", "return None")
    by_gate = mutant("settle", 'crash_point("after-verify")', "pass")
    by_tests = mutant("store", "fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass")
    does_not_load = mutant("checkpoint", '_ID = re.compile(r"[a-zA-Z0-9_-]+")', "")
    assert does_not_load


@pytest.mark.slow
def test_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What survives is shown, counted, and makes the status 1; what is listed is not examined."""
