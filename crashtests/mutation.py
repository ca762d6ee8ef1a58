"""Does anything notice a mutant? First the campaign's own generators, then the harness's own tests.

A mutant is applied as a planted bug is, in the process that loads the harness, with a fork server of its own. The
campaign: every script of the default sweep unkilled; then, of those of up to one call, the first of each kind, killed
at every crash point, once; then a few schedules of the machine. It stops at the first violation. What it went through
without one may still miss a gate of a full session: a crash point that nobody passes any more.

A script can only tell a mutant whose line some life of it executes, so the others are left out: which lines that are is
seen once, on the harness as it is. Killed lives need not be looked at, since they are beginnings of one that was not.
What both stores have in common is looked for on one of them. Of the tests, those that execute the line come first.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from crashtests.contract import violations
from crashtests.evidence import Evidence
from crashtests.execute import OURS, Executor, SubjectFault, executor
from crashtests.forkserver.client import Death, ForkServer, ForkServerError
from crashtests.kinds import TOOL_KINDS
from crashtests.machine import run_shard
from crashtests.mutate import Mutant
from crashtests.reach import lines_of, seeing_lines
from crashtests.schedule import Schedule
from crashtests.subject import load_subject
from crashtests.sweep import Task, sweep, tasks

SWEPT_CALLS_MAX = 1
MACHINE_SCHEDULES = 10
# To collect a test takes longer than to run it.
TELLING_TESTS_MAX = 40
# A mutant that never ends is one that is found; the harness's own lives take milliseconds.
LIFE_TIMEOUT_S = 5.0
# Only for what waits for ever: a busy machine must not be taken for a test that has noticed something.
TESTS_TIMEOUT_S = 900.0

_RED = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
_UNIT = "crashtests/unit"
FILES = (
    *("test_reconcile", "test_stores", "test_loop", "test_loop_resume", "test_loop_stops", "test_checkpoint"),
    *("test_refusal", "test_refusal_sqlite", "test_ownership", "test_damage", "test_cli_use"),
    *("test_cli", "test_cli_processes", "test_cli_usage", "test_cli_tools", "test_moments", "test_wrong_variants"),
    *("test_durable", "test_glance", "test_response", "test_outcome", "test_tool", "test_crash"),
)
# Those marked slow.
SLOW = ("test_failing_disk", "test_kills")
# Where to look first.
_FIRST = {
    "checkpoint": ("test_checkpoint", "test_refusal"),
    "durable": ("test_durable",),
    "json_store": ("test_refusal", "test_stores", "test_damage"),
    "ledger": ("test_refusal", "test_stores"),
    "reconcile": ("test_reconcile",),
    "settle": ("test_reconcile", "test_loop_resume", "test_loop"),
    "sqlite_store": ("test_refusal_sqlite", "test_stores"),
    "store": ("test_ownership", "test_glance", "test_refusal"),
}

_SLOW_PATHS = [f"{_UNIT}/{name}.py" for name in SLOW]

Label = tuple[str, str]
# By the id of a test.
Covered = dict[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Seen:
    """What lives of a task executed, and which crash points they passed on which store, on the harness as it is."""

    lines: frozenset[str]
    labels: frozenset[Label]


Baseline = dict[Task, Seen]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What noticed a mutant first: "campaign", "tests", or nothing. `how`: the violation, the gate or the test."""

    by: str | None
    how: str = ""


def swept() -> list[Task]:
    """The tasks of the default sweep, each with as many kills as are made here."""
    found = tasks(load_subject(OURS), "default", 0)
    return [replace(task, kills=int(_is_small(task.base))) for task in found]


def _is_small(script: Schedule) -> bool:
    calls = sum(len(turn.calls) for turn in script.turns)
    return calls <= SWEPT_CALLS_MAX and not any(script.kills)


def _lives(task: Task, execute: Executor) -> Iterator[Evidence]:
    """The task unkilled, then killed everywhere, if it is to be killed."""
    yield execute.execute(task.base)
    if task.kills:
        yield from sweep(task, lambda base, k: execute.execute(base, kill_at=k))


def baseline(of: Sequence[Task]) -> Baseline:
    """What the lives of each task execute. Takes as long as a campaign that finds nothing."""
    seen = {}
    with seeing_lines() as execute:
        for task in of:
            lines: set[str] = set()
            labels: set[Label] = set()
            for evidence in _lives(task, execute):
                lines |= lines_of(evidence.lives)
                labels |= _passed(evidence)
            seen[task] = Seen(frozenset(lines), frozenset(labels))
    return seen


def _passed(evidence: Evidence) -> set[Label]:
    return {(evidence.schedule.store, label) for life in evidence.lives for label in life.passed}


class _Campaign:
    """The campaign that one mutant meets. `unkilled` comes before `killed`; each says what it noticed, or None."""

    def __init__(self, seen: Baseline, mutant: Mutant) -> None:
        self._seen = seen
        self._mutant = mutant
        telling = [task for task, each in seen.items() if mutant.at_import or each.lines & _names(mutant)]
        # What the stores have in common is looked for on one of them.
        store = "sqlite" if mutant.module.endswith("sqlite_store") else "json"
        self._telling = [task for task in telling if task.base.store == store] or telling
        self._passed: set[Label] = set()

    def unkilled(self) -> str | None:
        # Most mutants break the very first lives, for which it is not worth while to warm anything up.
        return self._search([replace(task, kills=0) for task in self._telling], warm_up=False)

    def killed(self) -> str | None:
        tasks = [task for task in self._telling if task.kills]
        first = self._unlike(tasks)
        if how := self._search(first, schedules=MACHINE_SCHEDULES):
            return how
        if not self._missed():
            return None
        # A crash point that seems to be gone may be one that only the others pass.
        if how := self._search([task for task in tasks if task not in first]):
            return how
        missed = self._missed()
        return f"gate: {' '.join(min(missed))} was never passed" if missed else None

    def _search(self, tasks_told: Sequence[Task], *, schedules: int = 0, warm_up: bool = True) -> str | None:
        if not self._telling:
            return None
        try:
            found = _searched(self._mutant, tasks_told, schedules=schedules, warm_up=warm_up)
        except SubjectFault as fault:
            return f"fault: {str(fault).partition('; it printed:')[0]}"
        except ForkServerError as error:
            return f"does not load: {str(error).strip().splitlines()[-1]}"
        except AssertionError as error:
            return f"sweep: {error}"
        if isinstance(found, str):
            return found
        self._passed |= found
        return None

    def _unlike(self, of: list[Task]) -> list[Task]:
        """The first task of each kind: its lives execute other lines of the module, or its calls have other effects."""
        name = self._mutant.module.rpartition(".")[2]
        kinds: dict[tuple[object, ...], Task] = {}
        for task in of:
            lines = frozenset(line for line in self._seen[task].lines if line.startswith(f"{name}."))
            effects = frozenset(TOOL_KINDS[call].effect for call in task.base.tool_kinds())
            kinds.setdefault((lines, effects, task.base.marks), task)
        return list(kinds.values())

    def _missed(self) -> set[Label]:
        """Crash points that no life of a session would pass any more."""
        elsewhere = {label for task, seen in self._seen.items() if task not in self._telling for label in seen.labels}
        return {label for task in self._telling for label in self._seen[task].labels} - self._passed - elsewhere


class Examiner:
    """Examines mutants, one after the other. A context manager; it keeps what all tests need loaded."""

    def __init__(self, seen: Baseline, covered: Covered | None = None) -> None:
        self._seen = seen
        self._covered = covered or {}
        self._stack = ExitStack()
        self._tests: ForkServer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def examine(self, mutant: Mutant, *, quick: bool = False) -> Verdict:
        """What notices this mutant first. `quick`: the tests come before the kills."""
        campaign = _Campaign(self._seen, mutant)
        looks: list[tuple[str, Callable[[], str | None]]] = [
            ("campaign", campaign.unkilled),
            ("campaign", campaign.killed),
            # Some tests execute the line in a process that they start, and are not among those known to tell.
            ("tests", partial(self._telling_tests, mutant)),
            ("tests", partial(self._all_tests, mutant)),
            ("tests", partial(self._failing, mutant, _SLOW_PATHS, "--slow")),
        ]
        if quick:
            looks.insert(3, looks.pop(1))
        for by, look in looks:
            if how := look():
                return Verdict(by, how)
        return Verdict(None)

    def _telling_tests(self, mutant: Mutant) -> str | None:
        return self._failing(mutant, telling_tests(self._covered, mutant))

    def _all_tests(self, mutant: Mutant) -> str | None:
        first = _FIRST.get(mutant.module.rpartition(".")[2], ())
        files = [f"{_UNIT}/{name}.py" for name in dict.fromkeys((*first, *FILES))]
        return self._failing(mutant, files)

    def _failing(self, mutant: Mutant, tests: Sequence[str], *options: str) -> str | None:
        """The test that fails first; None if none does."""
        if not tests:
            return None
        if self._tests is None:
            self._tests = self._stack.enter_context(_tests_server())
        with tempfile.TemporaryDirectory(prefix="crashtests-") as hook:
            request = {"edit": asdict(mutant.edit), "hook": hook, "tests": tests, "options": options}
            death = self._tests.run(request)
        return _red(death, f"on {mutant}")


def _tests_server() -> ForkServer:
    return ForkServer("crashtests.mutant_tests:run", life_timeout_s=TESTS_TIMEOUT_S)


def _red(death: Death, what: str) -> str | None:
    """What pytest said of the test that failed; None if none did."""
    if death.exit_status == pytest.ExitCode.OK:
        return None
    said = [line for line in death.output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if death.timed_out or (death.exit_status in _RED and said):
        return said[0] if said else f"the tests did not end in {TESTS_TIMEOUT_S:.0f} s"
    raise RuntimeError(f"the tests could not be run {what}: {death}")


def covered() -> Covered:
    """What each of the harness's own tests executes of it; of the slow ones nothing is known.

    Raises `AssertionError` if they are red on the harness as it is: they would then notice anything.
    """
    files = [f"{_UNIT}/{name}.py" for name in FILES]
    with _tests_server() as server, tempfile.TemporaryDirectory(prefix="crashtests-") as directory:
        path = Path(directory, "covered.json")
        for tests, option in ((_SLOW_PATHS, ["--slow"]), (files, [])):
            death = server.run({"covered": str(path), "tests": tests, "options": option})
            if how := _red(death, "without any mutant"):
                raise AssertionError(f"the harness's own tests are red without any mutant: {how}")
        return {test: frozenset(lines) for test, lines in json.loads(path.read_text()).items()}


def telling_tests(covered: Covered, mutant: Mutant) -> list[str]:
    """Some of the tests that execute a line of the mutant: those that execute little else, the least first."""
    if mutant.at_import:
        return []
    telling = [test for test, lines in covered.items() if lines & _names(mutant)]
    return sorted(telling, key=lambda test: len(covered[test]))[:TELLING_TESTS_MAX]


def _names(mutant: Mutant) -> set[str]:
    name = mutant.module.rpartition(".")[2]
    return {f"{name}.{line}" for line in range(mutant.lines[0], mutant.lines[1] + 1)}


class _Found(Exception):
    """The machine has drawn a schedule that breaks a guarantee."""


def _searched(
    mutant: Mutant, tasks_told: Sequence[Task], *, schedules: int = 0, warm_up: bool = True
) -> str | set[Label]:
    """The first violation, or which crash points were passed. `schedules`: how many of the machine come after.

    Raises `SubjectFault`, `ForkServerError`, and what the sweep says of a life that passes other points than it should.
    """
    planted: dict[str, Any] = asdict(mutant.edit)
    passed: set[Label] = set()
    with executor(planted=planted, warm_up=warm_up, life_timeout_s=LIFE_TIMEOUT_S) as execute:

        def broken(evidence: Evidence) -> str | None:
            passed.update(_passed(evidence))
            found = violations(evidence, execute.reference(evidence.schedule), execute.subject)
            return f"{found[0]} ('{evidence.schedule}')" if found else None

        def judge(schedule: Schedule) -> None:
            if how := broken(execute.execute(schedule)):
                raise _Found(how)

        for task in tasks_told:
            for evidence in _lives(task, execute):
                if how := broken(evidence):
                    return how
        if schedules:
            try:
                run_shard(judge, execute.subject, seed_number=0, schedules=schedules)
            except _Found as found:
                return str(found)
    return passed
