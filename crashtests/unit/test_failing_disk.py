"""Disks that fill up, fail and lie, at every single call: nothing false, nothing twice, and a resume that ends."""

from __future__ import annotations

import errno
import fcntl
import sqlite3
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from crashtests.unit.failing_disk import BIG, FailingDisk, Run
from crashtests.unit.scenes import STORES
from crashtests.unit.world import World
from harness import JsonStore, Result, SqliteStore, StopError, Store, WriteFailed, durable

# Many runs, each with the failure one call further.
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def plain_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS too, files are synced by the call that the failing disk knows."""
    monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)


def runs_on(path: Path, store_class: type[Store], output: str = "it is done") -> Iterator[tuple[int, Run]]:
    """1, 2, 3... each with a run of its own, in a directory of its own."""
    for k in count(1):
        directory = path / str(k)
        directory.mkdir()
        yield k, Run(store_class(directory / "state"), World(directory / "world"), output)


@pytest.mark.parametrize(("number", "for_ever"), [(errno.ENOSPC, True), (errno.EIO, False)], ids=["full", "broken"])
def test_a_fault_at_every_call_of_the_disk(
    number: int, for_ever: bool, fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault moves on by one call at a time until a run ends without having met it, so that none was left out.

    The disk is then repaired, but what a failed sync has lost stays lost: no such file may ever be put in place.
    """
    met: list[str] = []
    warned = 0
    for k, run in runs_on(fast_path, JsonStore):
        disk = FailingDisk(k, number, for_ever=for_ever)
        with monkeypatch.context() as patched:
            patched.setattr(durable, "os", disk)
            ended = run.life()
            if not disk.failed:
                break
            met.append(disk.failed[0])
            warned += bool(run.warnings)
            assert_ended_honestly(ended, run, number)
            disk.repair()
            run.check()
        assert [] == disk.lies
        assert [] == list(run.store.directory.glob("*.tmp"))

    assert isinstance(ended, Result)
    assert ("done", ()) == (ended.status, ended.unknowns)
    assert disk.passed == len(met)
    assert {"open", "write", "fsync", "rename"} == set(met)
    assert len(met) > 80
    assert warned == 4 * 7  # the calls for the record of an outcome, of which there are four


def assert_ended_honestly(ended: Result | StopError, run: Run, number: int) -> None:
    """A fault stops the run with the reason, or it hit the record of an outcome, which is told and goes on."""
    message = str(OSError(number, errno.errorcode[number])).partition("]")[0]
    if isinstance(ended, Result) and ended.status == "done":
        [warning] = run.warnings
        assert "could not be recorded" in warning
        assert message in warning
        run.warnings.clear()
        return
    assert message in (ended.reason if isinstance(ended, Result) else str(ended))


def test_a_short_write_is_carried_on(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that takes less than it was given, wherever it is, costs nothing but another write."""
    for k, run in runs_on(fast_path, JsonStore):
        disk = FailingDisk(k, None, calls=["write"])
        with monkeypatch.context() as patched:
            patched.setattr(durable, "os", disk)
            ended = run.life()
        assert isinstance(ended, Result)
        assert ("done", (), []) == (ended.status, ended.unknowns, run.warnings)
        assert ["t1", "t2", "t3"] == run.world.of("effect")
        run.check()
        if not disk.failed:
            break

    assert k > 20


def test_a_disk_that_takes_nothing_is_an_error(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that says it wrote nothing, again and again, does not hang the run."""

    class Stuck(FailingDisk):
        asked = 0

        def write(self, fd: int, data: memoryview) -> int:
            self.asked += 1
            if self.asked > 100:
                raise AssertionError("it would be asked for ever")
            return 0

    _, run = next(runs_on(fast_path, JsonStore))
    monkeypatch.setattr(durable, "os", Stuck(0, None))

    assert "nothing was written" in str(run.life())


@pytest.mark.parametrize(("kind", "step"), [("json", 600), ("sqlite", 16_000)])
def test_a_real_limit_on_the_size_of_files(kind: str, step: int, fast_path: Path) -> None:
    """With RLIMIT_FSIZE, in a process of its own, a little higher each time until the run fits."""
    ends = []
    for k, run in runs_on(fast_path, STORES[kind]):
        ends.append(run.life_with_small_files(k * step))
        if ends[-1] == "done":
            break
        run.check()

    assert ["stopped"] * 3 == ends[:3]


class FullDatabase(SqliteStore):
    """A database that may not have more than so many pages."""

    pages_max = 0

    def _open(self, saved: int) -> None:
        super()._open(saved)
        assert self._connection is not None
        self._connection.execute(f"PRAGMA max_page_count={self.pages_max}")


def test_a_database_that_is_full(fast_path: Path) -> None:
    """With max_page_count, one page more each time until the run fits: full is full at every place."""
    ends = set()
    for k, run in runs_on(fast_path, FullDatabase, output=BIG):
        FullDatabase.pages_max = k
        ended = run.life()
        FullDatabase.pages_max = 1_000_000
        assert isinstance(ended, Result)
        if ended.status == "done" and not run.warnings:
            break
        ends.update([ended.reason.partition(" to ")[0], *(warning.partition(" (")[0] for warning in run.warnings)])
        run.check()

    assert {"could not write 'save-a'", "could not write 'save-b'", "the outcome of act"} <= ends


@pytest.mark.parametrize("lives", [0, 1], ids=["start", "resume"])
def test_a_database_that_cannot_be_opened(lives: int, fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start or a resume that cannot open its database says so, asks nothing, and the next one goes on."""
    _, run = next(runs_on(fast_path, SqliteStore))
    real = sqlite3.connect

    def connect(database: object, **options: Any) -> sqlite3.Connection:
        if database == run.store.checkpoint_path:
            raise sqlite3.OperationalError("unable to open database file")
        connection: sqlite3.Connection = real(str(database), **options)
        return connection

    if lives:
        FullDatabase.pages_max = 1
        Run(FullDatabase(run.store.directory), run.world).life()
    asked = run.world.of("ask")
    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", connect)
        ended = run.life()

    assert isinstance(ended, WriteFailed)
    assert "could not write 'open'" in str(ended)
    assert asked == run.world.of("ask")
    run.check()
