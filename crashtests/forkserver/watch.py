"""Owns the wait for the end of a life: for its death, the end of the client, or the time limit, whichever is
first.

Nothing polls. Where the kernel has them (Linux) a pidfd becomes readable when the life dies. Elsewhere
SIGCHLD writes to a socket; its handler has to be undone in every life, which costs a life a tenth of its
time.

It kills nothing.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from typing import Protocol


class ClientGone(Exception):
    """The client has closed its end of the channel, or died; there is nobody to report to."""


class Watch(Protocol):
    """One way to wait for the death of a child while an eye is kept on the channel."""

    def reap(self, pid: int, deadline: float) -> int | None:
        """Wait for the child and reap it; return its wait status, or None once the deadline (monotonic) has
        passed.

        Raises ClientGone; the child is then still to be reaped.
        """

    def undo(self) -> None:
        """In a life: leave no trace of the watch."""


def new_watch(channel: int) -> Watch:
    """The best watch that this system has."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return SignalWatch(channel)
    return PidfdWatch(channel)


class PidfdWatch:
    """A descriptor per life, open in the server only, and after the fork."""

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)

    def reap(self, pid: int, deadline: float) -> int | None:
        life = os.pidfd_open(pid)
        self._poll.register(life, select.POLLIN)
        try:
            dead = bool(_wait(self._poll, self._channel, deadline))
        finally:
            self._poll.unregister(life)
            os.close(life)
        return os.waitpid(pid, 0)[1] if dead else None

    def undo(self) -> None:
        pass


class SignalWatch:
    """SIGCHLD, made readable. It may be that of an orphan, so the child is looked at each time."""

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._wake, self._waker = socket.socketpair()
        for end in (self._wake, self._waker):
            end.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _signum, _frame: None)
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)

    def reap(self, pid: int, deadline: float) -> int | None:
        while True:
            reaped, status = os.waitpid(pid, os.WNOHANG)
            if reaped:
                return status
            if not _wait(self._poll, self._channel, deadline):
                return None
            self._wake.recv(4096)

    def undo(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._wake.close()
        self._waker.close()


def _wait(poll: select.poll, channel: int, deadline: float) -> list[int]:
    """The descriptors that are ready before the deadline; raises ClientGone if the channel is one."""
    left_s = max(0.0, deadline - time.monotonic())
    ready = [descriptor for descriptor, _ in poll.poll(left_s * 1000)]
    if channel in ready:  # the client never speaks before it has its answer: this is its end
        raise ClientGone
    return ready
