"""Owns the ties between processes: a life dies with its server, and nothing that a life started outlives it.

On Linux the kernel does both. PR_SET_PDEATHSIG kills a life when its server dies. PR_SET_CHILD_SUBREAPER
makes the server the parent of every orphan of a life, so that it can find, kill and reap even a daemon that
has left the group.

Elsewhere (macOS) a thread in the life waits for the end of a pipe that only the server holds open, and what
is left of a life is looked for in its process group: a daemon with a session of its own escapes, and a killed
straggler is not waited for, because it is not our child.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterable

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _find_prctl() -> Callable[[int, int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        # Bare, without argtypes: converting by them doubles what the call costs a life, in pages that have to
        # be copied. libffi widens a plain int to the register, and a call that fails is noticed.
        function: Callable[[int, int], int] = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return function


# Resolved when the server starts: dlopen after a fork is slow and not safe.
_prctl = _find_prctl()


def adopt_orphans() -> None:
    """Become the parent of every orphaned descendant, where the kernel offers that."""
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(server: int, lifeline: int) -> None:
    """In a life: be killed as soon as `server` dies, which alone holds the other end of `lifeline` open."""
    if _prctl is None or _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        import threading  # its handler for forks would cost every other life a third of its time

        threading.Thread(target=watch_lifeline, args=(lifeline,), daemon=True).start()
    if os.getppid() != server:  # it died before the line above
        os.kill(os.getpid(), signal.SIGKILL)


def watch_lifeline(lifeline: int) -> None:
    """Kill this process and its group once the other end of the pipe is closed."""
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


def kill_group(group: int) -> None:
    """SIGKILL a process group, if there is one."""
    # PermissionError: macOS says so of a group of zombies
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def children() -> frozenset[int]:
    """The children of this process, zombies included; empty where the kernel does not list them."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children", "rb") as listing:
                found.update(map(int, listing.read().split()))
    return frozenset(found)


def strays(kept: Iterable[int] = ()) -> frozenset[int]:
    """The living children of this process but for those `kept`; the dead are reaped. Empty where none can be listed."""
    return children().difference(kept) if _reap_zombies() else frozenset()


def end_stragglers(group: int, kept: Iterable[int] = ()) -> int:
    """Kill what is left of a life whose leader has been reaped; return how many processes that were.

    `kept` are the children that this process had before the life began.
    """
    ended = 0
    while _reap_zombies():
        living = children().difference(kept)
        if not living:
            return ended + end_group(group)
        kill_group(group)  # at once, so that they have less time to start others
        for pid in living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in living:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        ended += len(living)  # their own children are ours now: look again
    return ended if _prctl is not None else ended + end_group(group)


def _reap_zombies() -> bool:
    """Reap the children that are dead already; say whether a living one is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def end_group(group: int) -> int:
    """The portable way: kill the living members of a group; return how many those were."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return 0
    except PermissionError:
        pass
    living = _count_members(group)
    kill_group(group)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-group, 0)
    return living


def _count_members(group: int) -> int:
    import subprocess  # rarely needed, and every fork would copy its pages

    try:
        listing = subprocess.run(["ps", "-A", "-o", "pgid=,stat="], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 1  # the group exists, and that is all that can be known
    states = [line.split() for line in listing.splitlines()]
    return sum(1 for fields in states if int(fields[0]) == group and not fields[1].startswith(b"Z"))
