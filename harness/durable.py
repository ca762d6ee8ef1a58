"""Durable writes: the one module through which the files of a run are put in place.

A file is replaced as a whole: written beside itself, synced, renamed, and its directory synced, so that at every
moment the old content or the new one stands under its name, also after power loss. Each stage is a crash point named
by the write and the stage (`save-a.synced`). What the bytes mean is the stores' business.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from harness.crash import crash_point
from harness.errors import WriteFailed


def replace(path: Path, data: bytes, write: str) -> None:
    """Put `data` under `path`, atomically and durably, private to the user. `write` names the crash points.

    Raises `WriteFailed`; `path` then still holds what it held, or already holds `data` (a failed last sync).
    """
    # One owner at a time (the lock), so the name needs no randomness, and a leftover is simply overwritten.
    temporary = f"{path}.tmp"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            half = len(data) // 2
            _write_all(fd, data[:half])
            crash_point(f"{write}.half-written")
            _write_all(fd, data[half:])
            crash_point(f"{write}.written")
            sync(fd)
            crash_point(f"{write}.synced")
        finally:
            os.close(fd)
        os.rename(temporary, path)
        crash_point(f"{write}.renamed")
        sync_directory(path.parent)
        crash_point(f"{write}.dir-synced")
    except OSError as cause:
        with suppress(OSError):
            os.unlink(temporary)
        raise WriteFailed(path, write, cause) from cause


def move(source: Path, target: Path) -> None:
    """Move a file or directory to `target`, durably. Raises `WriteFailed`."""
    try:
        os.rename(source, target)
        sync_directory(target.parent)
        if target.parent != source.parent:
            sync_directory(source.parent)
    except OSError as cause:
        raise WriteFailed(source, f"move to {target}", cause) from cause


def make_directory(path: Path) -> None:
    """Make `path`, private to the user, and what is missing above it, durably. Raises `WriteFailed`."""
    try:
        missing = [p for p in (path, *path.parents) if not p.exists()]
        there = missing[-1].parent if missing else path
        # A process may have made it and been killed before it could sync its name.
        with suppress(PermissionError):  # above it there may be what this user may not read, and so cannot sync
            sync_directory(there.parent)
        for new in reversed(missing):
            new.mkdir(mode=0o700, exist_ok=True)
            sync_directory(new.parent)
    except OSError as cause:
        raise WriteFailed(path, "directory", cause) from cause


def settle(paths: Iterable[Path]) -> None:
    """Make the files of one directory durable, as far as they exist, and their names. Raises `WriteFailed`.

    What a killed process has written can be read before it is on the disk. Whoever acts on it must see to that first,
    or a loss of power takes back what was acted on.
    """
    for path in paths:
        try:
            try:
                fd = os.open(path, os.O_NOFOLLOW)
            except FileNotFoundError:
                continue
            try:
                sync(fd)
            finally:
                os.close(fd)
            sync_directory(path.parent)
        except OSError as cause:
            raise WriteFailed(path, "sync", cause) from cause


def sync(fd: int) -> None:
    """Make a file's content durable. On macOS fsync stops at the drive's cache, F_FULLFSYNC does not."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    """Write all of `data`: the kernel may take less than it is given and say so only by the count."""
    view = memoryview(data)
    while view:
        if not (written := os.write(fd, view)):
            raise OSError(errno.EIO, "nothing was written")
        view = view[written:]
