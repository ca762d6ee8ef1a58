"""Durable writes, call by call: what is opened, written, synced and renamed, in this order and with these flags."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from harness import JsonStore, WriteFailed, durable

NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
DIRECTORY = os.O_DIRECTORY


class Recorder:
    """`os`, which remembers the calls that touch the disk, with names in place of descriptors."""

    def __init__(self, root: Path) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._root = root
        self._open: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def name(self, path: Any) -> str:
        return os.path.relpath(path, self._root)

    def open(self, path: Any, flags: int, *mode: int) -> int:
        fd = os.open(path, flags, *mode)
        self._open[fd] = self.name(path)
        self.calls.append(("open", self.name(path), flags, *mode))
        return fd

    def write(self, fd: int, data: memoryview) -> int:
        self.calls.append(("write", self._open[fd], bytes(data)))
        return os.write(fd, data)

    def fsync(self, fd: int) -> None:
        self.calls.append(("fsync", self._open[fd]))
        os.fsync(fd)

    def close(self, fd: int) -> None:
        self.calls.append(("close", self._open.pop(fd)))
        os.close(fd)

    def rename(self, source: Any, target: Any) -> None:
        self.calls.append(("rename", self.name(source), self.name(target)))
        os.rename(source, target)


@pytest.fixture
def disk(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """What `durable` does to files below `fast_path`, on any system as on Linux."""
    recorder = Recorder(fast_path)
    monkeypatch.setattr(durable, "os", recorder)
    monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)
    return recorder


def synced(directory: str) -> list[tuple[Any, ...]]:
    return [("open", directory, DIRECTORY), ("fsync", directory), ("close", directory)]


def test_replace(disk: Recorder, fast_path: Path) -> None:
    """A new file, private and never through a link, half of it and the rest; synced, closed, renamed; its directory."""
    durable.replace(fast_path / "file", b"abcde", "save-a")

    expected = [
        ("open", "file.tmp", NEW, 0o600),
        ("write", "file.tmp", b"ab"),
        ("write", "file.tmp", b"cde"),
        ("fsync", "file.tmp"),
        ("close", "file.tmp"),
        ("rename", "file.tmp", "file"),
        *synced("."),
    ]
    assert expected == disk.calls


def test_move_between_directories(disk: Recorder, fast_path: Path) -> None:
    """Where a file has come is durable before that it has gone: never neither."""
    (fast_path / "aside").mkdir()
    (fast_path / "file").write_bytes(b"abc")

    durable.move(fast_path / "file", fast_path / "aside" / "file")

    assert [("rename", "file", "aside/file"), *synced("aside"), *synced(".")] == disk.calls


def test_move_within_a_directory(disk: Recorder, fast_path: Path) -> None:
    """One directory, one sync."""
    (fast_path / "one").mkdir()

    durable.move(fast_path / "one", fast_path / "two")

    assert [("rename", "one", "two"), *synced(".")] == disk.calls


def test_a_move_that_fails_is_said_to_have(fast_path: Path) -> None:
    """Whoever moves a run out of the way must not go on as if it were."""
    with pytest.raises(WriteFailed, match=r"move to .*target. to .*source: .*No such file"):
        durable.move(fast_path / "source", fast_path / "target")


def test_a_link_is_not_settled(fast_path: Path) -> None:
    """What a link points to has its name in a directory that nobody syncs."""
    (fast_path / "elsewhere").write_bytes(b"abc")
    (fast_path / "link").symlink_to("elsewhere")

    with pytest.raises(WriteFailed, match=r"sync. to .*link: .*symbolic links"):
        durable.settle([fast_path / "link"])


def test_nothing_stays_open(fast_path: Path) -> None:
    """A run of ten thousand turns must not come to the end of its file descriptors."""
    before = len(os.listdir("/dev/fd"))
    durable.make_directory(fast_path / "a")
    durable.replace(fast_path / "a" / "file", b"abc", "save-a")
    durable.settle([fast_path / "a" / "file"])
    durable.move(fast_path / "a" / "file", fast_path / "moved")

    assert before == len(os.listdir("/dev/fd"))


def test_make_directory(disk: Recorder, fast_path: Path) -> None:
    """What is missing is made from the top, private, each name synced before the next one is made in it."""
    durable.make_directory(fast_path / "a" / "b")

    assert [*synced(".."), *synced("."), *synced("a")] == disk.calls
    assert [0o700, 0o700] == [stat.S_IMODE((fast_path / name).stat().st_mode) for name in ("a", "a/b")]


def test_a_directory_that_is_there(disk: Recorder, fast_path: Path) -> None:
    """A process may have made it and been killed before it synced its name: that is made up for."""
    (fast_path / "a").mkdir()
    durable.make_directory(fast_path / "a")

    assert synced(".") == disk.calls


def test_a_start_into_a_directory_that_is_there(disk: Recorder, fast_path: Path) -> None:
    """A start, but no resume, syncs the name of its directory: what a resume finds was written behind that."""
    store = JsonStore(fast_path / "a")
    store.directory.mkdir()
    for create, calls in ((False, []), (True, synced("."))):
        with store.owned(create=create):
            assert calls == disk.calls


def test_a_directory_that_another_process_makes(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it is there now, though it was not a moment ago, is no error: the lock says who owns it."""
    directory = fast_path / "state"
    directory.mkdir()
    monkeypatch.setattr(Path, "exists", lambda path: path != directory)

    durable.make_directory(directory)

    assert directory.is_dir()


@pytest.mark.parametrize("error", [OSError(5, "no"), None], ids=["failing", "working"])
def test_where_fsync_stops_at_the_cache(
    error: OSError | None, fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where F_FULLFSYNC exists, a file is synced by it and by nothing less."""
    synced_by: list[int] = []

    def control(fd: int, command: int) -> None:
        synced_by.append(command)
        if error:
            raise error

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda fd: synced_by.append(0))
    if error:
        with pytest.raises(WriteFailed, match="no"):
            durable.replace(fast_path / "file", b"abc", "save-a")
    else:
        durable.replace(fast_path / "file", b"abc", "save-a")

    assert ([51] if error else [51, 0]) == synced_by
