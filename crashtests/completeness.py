"""Completeness of the labels: does a kill anywhere leave a state that no kill at a crash point leaves?

The campaign kills at labels. That is enough exactly if what a process does between two of them leaves nothing new: so
here one life of a script is killed at every line of the harness that it executes (and, with strace, before every
system call on its files), and each state that is left must be one that a kill at a label leaves as well, or the one
the life began with. A durable write without a crash point of its own shows as a state that is not.

States are compared up to content: what a store loads or why it refuses, what was set aside, files that are not the
store's, and the world. Not by a file's bytes: a temporary file that is not renamed yet is nothing to a resume.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from crashtests.anywhere import CALLS_FILE, SURVEY
from crashtests.evidence import Evidence
from crashtests.execute import OURS, Executor
from crashtests.forkserver.client import ForkServer
from crashtests.planted import Edit
from crashtests.schedule import Kill, Schedule
from crashtests.subjects.ours import Harness
from crashtests.sweep import Task, sweep
from harness import JsonStore, SqliteStore, StateRefused
from harness.store import STORE_FILES

_STORES = (JsonStore, SqliteStore)
_OF_THE_STORES = {name for files in STORE_FILES.values() for file in files for name in (file, f"{file}.tmp")}
_RUN_ID = re.compile(r"\b[0-9a-f]{32}\b")
# `rename("/.../run-3/state/checkpoint.json.tmp", ...) = 0`, `write(5</.../run-3/world.log>, ...) = 90`
_CALL = re.compile(r"(\w+)\((.*)\) += ")


class Contents(Harness):
    """The reference harness, of which two states are one if they hold the same."""

    def state_key(self, state_dir: Path) -> str | None:
        text = repr(_contents(state_dir))
        # Ids of runs are random; which of the files share one is not.
        ids = {found: f"run {number}" for number, found in enumerate(dict.fromkeys(_RUN_ID.findall(text)), start=1)}
        return _RUN_ID.sub(lambda match: ids[match[0]], text.replace(str(state_dir), "."))


def _contents(directory: Path) -> list[Any]:
    """What is in a directory that a store may own: what can be loaded, or why not, and everything else."""
    found: list[Any] = [_loaded(directory)]
    for path in sorted(directory.iterdir()) if directory.is_dir() else []:
        if path.is_dir():
            # One that is empty and unfinished is what the next fresh start would make; a test of the stores shows it.
            if path.suffix != ".unfinished" or any(path.iterdir()):
                found.append((path.name, _contents(path)))
        elif path.name not in _OF_THE_STORES:
            found.append((path.name, path.read_bytes()))
    return found


def _loaded(directory: Path) -> Any:
    refusals = []
    for store in _STORES:
        try:
            return store(directory).read()
        except StateRefused as refused:
            refusals.append(f"{type(refused).__name__}: {refused}")
    return refusals


@dataclass(frozen=True, slots=True)
class Place:
    """A kill that leaves a state which no kill at a label leaves."""

    schedule: Schedule
    state: Hashable

    def __str__(self) -> str:
        return f"'{self.schedule}' leaves a state that no kill at a crash point leaves: {str(self.state)[-1500:]}"


class Lives:
    """The three ways to die: at a label, at a line, before a system call. A context manager; `edit`: a planted bug."""

    def __init__(self, edit: Edit | None = None) -> None:
        self._planted = asdict(edit) if edit else None
        self._servers = ExitStack()
        self._lines_seen: set[str] = set()
        self._left: dict[Schedule, set[Hashable]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._servers.close()

    @cached_property
    def at_label(self) -> Executor:
        return self._executor("crashtests.life:live")

    @cached_property
    def at_line(self) -> Executor:
        return self._executor("crashtests.anywhere:at_line")

    @cached_property
    def at_call(self) -> Executor:
        return self._executor("crashtests.anywhere:at_call")

    def _executor(self, target: str) -> Executor:
        setup = {"subject": OURS, "planted": self._planted, "warm_up": True}
        server = self._servers.enter_context(ForkServer(target, setup=setup))
        return Executor(server, Contents())

    @property
    def modules(self) -> set[str]:
        """The modules of the harness of which lines were executed, as far as `lines` was asked."""
        return {name.partition(".")[0] for name in self._lines_seen}

    def left_at_labels(self, base: Schedule) -> set[Hashable]:
        """The states that kills at labels leave in the life after `base`'s kills, and the one in which it ends."""
        if base not in self._left:
            evidences = sweep(Task(base, kills=1), lambda task, k: self.at_label.execute(task, kill_at=k))
            self._left[base] = {evidence.branch for evidence in evidences}
        return self._left[base]

    def lines(self, base: Schedule, *, every: bool = False) -> list[int]:
        """Where the life after `base`'s kills can be killed: `every` line that it executes, or those that tell.

        Those are each line that none of the lives asked about before has executed, and every one that finds other
        files than the line before it did.
        """
        survey = self.at_line.execute(base, kill_at=SURVEY)
        event = next(event for event in survey.events if event["event"] == "lines")
        if every:
            return list(range(1, event["executed"] + 1))
        new = {k for name, k in event["firsts"].items() if name not in self._lines_seen}
        self._lines_seen.update(event["firsts"])
        return sorted({1, *new, *event["changes"]})

    def calls(self, base: Schedule) -> list[Kill]:
        """The system calls with which the life after `base`'s kills changes files of its run, in order."""
        self.at_call.execute(base, kill_at=SURVEY)
        counts: Counter[str] = Counter()
        calls = []
        for line in (self.at_call.root / CALLS_FILE).read_text(errors="replace").splitlines():
            if match := _CALL.match(line):
                name, arguments = match.groups()
                counts[name] += 1
                if "/state" in arguments and (name not in ("open", "openat") or "O_WRONLY" in arguments):
                    calls.append(Kill(name, counts[name]))
        return calls


def unlabelled(base: Schedule, lives: Lives, kills: Iterable[Evidence]) -> Iterator[Place]:
    """The kills that leave, in the life after `base`'s own, what no kill at a label leaves there.

    The first of `kills` must come before that life has done anything.
    """
    left = set(lives.left_at_labels(base))
    for number, evidence in enumerate(kills):
        if not evidence.schedule.kills[len(base.kills) :]:
            raise AssertionError(f"a kill of '{base}' was not reached")
        if evidence.branch not in left and number:
            yield Place(evidence.schedule, evidence.branch)
        left.add(evidence.branch)


def at_lines(base: Schedule, lives: Lives, *, every: bool = False) -> Iterator[Place]:
    """`unlabelled`, for kills at lines of the harness."""
    return unlabelled(base, lives, (lives.at_line.execute(base, kill_at=k) for k in lives.lines(base, every=every)))


def at_calls(base: Schedule, lives: Lives) -> Iterator[Place]:
    """`unlabelled`, for kills before system calls."""
    schedules = (replace(base, kills=(*base.kills, call)) for call in lives.calls(base))
    return unlabelled(base, lives, map(lives.at_call.execute, schedules))
