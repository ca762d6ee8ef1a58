"""Owns the directory that a fork server works in: makes it, tells a live one from a stale one, removes it.

A root is live while somebody holds an flock on the directory itself. Client and server share one open file
description of it, so the lock lasts until both are gone, and it goes with them however they die: no file of
process ids that could be stale or recycled. Roots whose lock is free are swept when the next server starts.

It does not know what is kept in a root.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from pathlib import Path

from crashtests.forkserver.remove import remove_tree

# Long on purpose: the sweep deletes what bears this name, so nobody else may come upon it by chance.
_PREFIX = "crashtests-forkserver-"


def default_base() -> Path:
    """Where roots go: memory where there is a tmpfs, since a life is mostly small files and their fsyncs.

    CRASHTESTS_TMPDIR names another place, for a container whose /dev/shm is too small.
    """
    if chosen := os.environ.get("CRASHTESTS_TMPDIR"):
        return Path(chosen).absolute()
    shm = Path("/dev/shm")
    return shm if shm.is_dir() and os.access(shm, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def create(root: Path | None) -> tuple[Path, int]:
    """Make a root (mode 0700) and lock it; return it and the descriptor that holds the lock.

    A root named by the caller must be new or empty, because it is removed with all that is in it.
    """
    sweep(default_base())
    if root is not None:
        root = root.absolute()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise FileExistsError(f"root={str(root)!r} must be a new or empty directory: it is removed at the end")
        root.chmod(0o700)
        lock = _lock(root)
        if lock is None:
            raise FileExistsError(f"root={str(root)!r} is held by another fork server: name another directory")
        return root, lock
    while True:
        made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=default_base()))
        lock = _lock(made)
        if lock is not None:  # else a sweep came between the two lines and took it for stale
            return made, lock


def sweep(base: Path) -> None:
    """Remove the roots of dead servers (of this user) directly below `base`."""
    with os.scandir(base) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    for name in names:
        with contextlib.suppress(OSError):
            found = os.lstat(name)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            lock = _lock(Path(name))
            if lock is not None:
                try:
                    remove_tree(name)
                finally:
                    os.close(lock)


def _lock(path: Path) -> int | None:
    """Take the lock on a directory; None if it is held, or if the directory was removed meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours, named = os.fstat(descriptor), os.stat(path)
        if (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
