"""An heir: a process that goes on with the scripted model where a life was killed alone, and what it had started lives.

To a Messages API it is nothing that a host has died. The suite's lives in the host, so before anything else is started
there an heir is forked. It waits for the host's death, then serves for as long as any other process of the life's
session is alive, and leaves. On Linux, where those can be listed; elsewhere nothing lives on.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn


@contextmanager
def inheriting(serve: Callable[[], None]) -> Iterator[None]:
    """Call `serve` in another process when this one is killed. That one ends with the context otherwise.

    To be entered before this process has threads or children.
    """
    host = os.getpid()
    heir = os.fork()
    if heir == 0:
        _inherit(host, serve)
    try:
        yield
    finally:
        os.kill(heir, signal.SIGKILL)
        os.waitpid(heir, 0)


def _inherit(host: int, serve: Callable[[], None]) -> NoReturn:
    try:
        _wait_for(host)
        threading.Thread(target=serve, daemon=True).start()
        while others := _others():
            _wait_for(min(others))
    finally:
        os._exit(0)


def _others() -> set[int]:
    """The living processes of this session, but for this one."""
    found = set()
    with suppress(OSError):
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                # pid (name) state ppid group session: the name may hold anything.
                state, _, _, session = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) == os.getsid(0) and state != "Z":
                    found.add(int(name))
    return found - {os.getpid()}


def _wait_for(pid: int) -> None:
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        select.select([process], [], [])
        os.close(process)
