"""A store: where one run's checkpoint and ledger live. The interface, and what every store does alike.

A store directory holds one run. It has one owner: an OS lock on the directory itself, taken before anything in it is
opened and gone with the process that holds it. Reading never changes anything on disk: state that is damaged,
foreign or incomplete is refused with the file and the remedy, and left as it is. A fresh start moves what it finds
into `set-aside-N`, the checkpoint before the ledger, so that no ledger is ever found missing beside its checkpoint;
until all of it is there, the directory is called `set-aside-N.unfinished`.

To add a store: subclass `Store`, give it its row in `STORE_FILES`, and run the tests, which take every store.
"""

from __future__ import annotations

import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from harness import durable
from harness.checkpoint import BadScene, Checkpoint, all_tool_uses, decode
from harness.crash import crash_point
from harness.errors import StateDamaged, StateForeign, StateHeld, StateMissing, StateRefused, UsageError
from harness.ledger import BadLedger, Entry, Ledger, check_belongs

# The files of each kind of store, the one with the checkpoint first.
STORE_FILES = {
    "json": ("checkpoint.json", "effects.json"),
    "sqlite": ("state.sqlite3", "state.sqlite3-wal", "state.sqlite3-shm", "state.sqlite3-journal"),
}

# Of these, those that hold something: the index of a log is made again from the log.
LASTING_FILES = {kind: tuple(n for n in names if not n.endswith("-shm")) for kind, names in STORE_FILES.items()}

# How often to look again at files that change while they are read.
_GLANCES_MAX = 1000

CHECK_PERMISSIONS = "check its owner and permissions"
START_AFRESH = "restore it from a backup, or start afresh without --resume (what is here is set aside, not deleted)"


class Store(ABC):
    """One run's durable state, in `directory`. Use it inside `owned()`; `load` or `start` comes first."""

    kind: ClassVar[str]

    def __init__(self, directory: Path | str) -> None:
        self.directory = _anchored(Path(directory))

    @abstractmethod
    def read(self) -> tuple[Checkpoint, Ledger]:
        """Examine what is on disk without changing it. Raises a `StateRefused`."""

    @abstractmethod
    def load(self) -> tuple[Checkpoint, Ledger]:
        """`read`, make it durable, and go on from there. Raises a `StateRefused` or `WriteFailed`."""

    @abstractmethod
    def create(self, checkpoint: Checkpoint) -> None:
        """Make the empty ledger and the first scene durable. Raises `WriteFailed`."""

    @abstractmethod
    def save(self, checkpoint: Checkpoint, write: str) -> None:
        """Make the scene durable; `write` is its row in `crash.WRITES`. Raises `WriteFailed`."""

    @abstractmethod
    def record(self, ledger: Ledger, entry: Entry, write: str) -> None:
        """Make `entry`, the latest put into `ledger`, durable. Raises `WriteFailed`."""

    @abstractmethod
    def close(self) -> None:
        """Let go of open files; `load` opens them again."""

    def glance(self) -> tuple[Checkpoint, Ledger]:
        """`read` without owning the directory. Raises a `StateRefused`.

        A live owner may write between the reading of one file and the next, so what was read counts only if no file
        was changed meanwhile.
        """
        for _ in range(_GLANCES_MAX):
            before = self._versions()
            try:
                seen: tuple[Checkpoint, Ledger] | StateRefused = self.read()
            except StateRefused as error:
                seen = error
            if self._versions() == before:
                break
        else:
            raise StateHeld(self.directory, "a live process writes faster than this can read", "try again")
        if isinstance(seen, StateRefused):
            raise seen
        return seen

    def _versions(self) -> dict[str, tuple[int, int, int]]:
        """What tells one version of each file that is there from the next."""
        versions = {}
        for name in STORE_FILES[self.kind]:
            with suppress(OSError):
                stat = os.stat(self.directory / name)
                versions[name] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        return versions

    @property
    def checkpoint_path(self) -> Path:
        return self.directory / STORE_FILES[self.kind][0]

    @property
    def ledger_path(self) -> Path:
        """The file that holds the ledger, if it is not the one with the checkpoint."""
        return self.checkpoint_path

    @contextmanager
    def owned(self, *, create: bool) -> Iterator[None]:
        """Own the directory, which is made if `create`. Raises `StateHeld`, `StateMissing`, `UsageError`."""
        if create and (not exists(self.directory) or self.directory.is_dir()):
            durable.make_directory(self.directory)
        try:
            fd = os.open(self.directory, os.O_DIRECTORY)
        except FileNotFoundError:
            raise self.missing("there is no such directory") from None
        except NotADirectoryError:
            raise UsageError(f"state directory {str(self.directory)!r} is not a directory") from None
        except OSError as cause:
            raise StateRefused(self.directory, str(cause), CHECK_PERMISSIONS) from cause
        try:
            self._lock(fd)
            yield
        finally:
            self.close()
            os.close(fd)

    def start(self, checkpoint: Checkpoint) -> Path | None:
        """Set aside what is there, then `create`. Returns the directory it was set aside in, if anything was."""
        self.check_kind()
        aside = self._set_aside()
        self.create(checkpoint)
        return aside

    def settle(self) -> None:
        """Make durable what an earlier life may have left in the page cache only. Raises `WriteFailed`."""
        durable.settle(self.directory / name for name in LASTING_FILES[self.kind])

    def missing(self, problem: str) -> StateMissing:
        return StateMissing(self.directory, problem, "start a run first, without --resume")

    def check_kind(self) -> None:
        """Refuse a directory in which another kind of store keeps a run. Raises `StateForeign`."""
        for kind, files in LASTING_FILES.items():
            there = [name for name in files if exists(self.directory / name)] if kind != self.kind else []
            if there:
                remedy = f"pass --store {kind}, or use another directory"
                raise StateForeign(self.directory / there[0], f"this directory holds a {kind} run", remedy)

    def being_set_aside(self) -> bool:
        """Whether a fresh start died while it moved the pair away: the checkpoint is gone on purpose."""
        aside = self._latest_aside()
        return aside is not None and aside.suffix == _UNFINISHED and (aside / self.checkpoint_path.name).exists()

    def decode(self, head: object, messages: object, ledger: Ledger) -> Checkpoint:
        """The checkpoint that belongs to `ledger`. Raises `StateDamaged` or `StateForeign`."""
        try:
            checkpoint = decode(head, messages)
            if checkpoint.run_id != ledger.run_id:
                problem = f"ledger of run {ledger.run_id}, checkpoint of run {checkpoint.run_id}"
                raise StateForeign(self.directory, problem, START_AFRESH)
            check_belongs(ledger, all_tool_uses(checkpoint.messages))
        except BadScene as cause:
            raise StateDamaged(self.checkpoint_path, str(cause), START_AFRESH) from cause
        except BadLedger as cause:
            raise StateDamaged(self.ledger_path, str(cause), START_AFRESH) from cause
        return checkpoint

    def _lock(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            remedy = "wait for it to end, or end it; the lock goes with the process"
            raise StateHeld(self.directory, "a live process owns this run", remedy) from None
        except OSError as cause:
            remedy = "use a directory on a file system that has them"
            raise StateRefused(self.directory, str(cause), remedy) from cause

    def _set_aside(self) -> Path | None:
        """Move what is there into a directory that gets its final name last, so that an unfinished move shows."""
        present = [self.directory / name for name in STORE_FILES[self.kind] if exists(self.directory / name)]
        aside = self._latest_aside()
        if aside is None or aside.suffix != _UNFINISHED or any((aside / path.name).exists() for path in present):
            if not present:
                return None
            number = 1 if aside is None else _number(aside) + 1
            aside = self.directory / f"set-aside-{number}{_UNFINISHED}"
            durable.make_directory(aside)
        for path in present:
            durable.move(path, aside / path.name)
            if label := _SET_ASIDE_LABELS.get(path.name):
                crash_point(label)
        durable.move(aside, aside.with_suffix(""))
        return aside.with_suffix("")

    def _latest_aside(self) -> Path | None:
        numbered = (p for p in self.directory.glob("set-aside-*") if _number(p))
        return max(numbered, key=_number, default=None)


def _anchored(directory: Path) -> Path:
    """`directory` from the root, since a tool may change the working directory before the next write."""
    try:
        return directory.absolute()
    except FileNotFoundError:  # the working directory is gone; whoever opens this is told so
        return directory


def exists(path: Path) -> bool:
    """Whether `path` is there. Raises `StateRefused` where that cannot be told: absence must never be a guess."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError as cause:
        raise StateRefused(path, f"cannot be examined: {cause}", CHECK_PERMISSIONS) from cause
    return True


_UNFINISHED = ".unfinished"


def _number(aside: Path) -> int:
    """N of `set-aside-N` and `set-aside-N.unfinished`, 0 for any other name."""
    number = aside.name.removesuffix(_UNFINISHED).rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() else 0


_SET_ASIDE_LABELS = {
    "checkpoint.json": "set-aside.checkpoint-moved",
    "effects.json": "set-aside.ledger-moved",
    "state.sqlite3": "set-aside.database-moved",
    "state.sqlite3-wal": "set-aside.log-moved",
}
