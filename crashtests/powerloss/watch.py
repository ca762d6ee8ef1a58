"""Watching the syncs of a life, in its process only: the harness knows nothing of it.

The calls by which Python makes a file or directory durable are replaced by ones that tell the model (`Disk`) too, one
level below the harness's own writing module: so an edit of that module is watched like the module itself. sqlite syncs
in C, and is watched at its file layer. Not seen: `os.sync`, O_SYNC, mapped files, extensions in C, other processes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crashtests.powerloss.disk import Disk

# In a run's directory: what a life has left unsynced, for the next.
KEPT = "unsynced.json"


def watch(run: Path, store: str) -> Disk:
    """What is durable of `run`/state, told of every sync from now on. For the rest of this process's life."""
    disk = Disk(run / "state", run / KEPT)
    for name in ("fsync", "fdatasync"):
        if hasattr(os, name):
            setattr(os, name, _telling(getattr(os, name), disk))
    if hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl = _telling_if(fcntl.fcntl, fcntl.F_FULLFSYNC, disk)
    if store == "sqlite":
        from crashtests.powerloss import sqlite_syncs  # only here: no other life has to load ctypes

        sqlite_syncs.tell(disk.synced)
    return disk


def _telling(sync: Callable[[Any], None], disk: Disk) -> Callable[[Any], None]:
    def telling(file: Any) -> None:
        sync(file)
        disk.synced(file if isinstance(file, int) else file.fileno())

    return telling


def _telling_if(control: Callable[..., Any], command: int, disk: Disk) -> Callable[..., Any]:
    def telling(file: Any, asked: int, *arguments: Any) -> Any:
        result = control(file, asked, *arguments)
        if asked == command:
            disk.synced(file if isinstance(file, int) else file.fileno())
        return result

    return telling
