"""Owns the server process: loads the target once, then forks one life per request and reports how it ended.

It waits for three things at once: the death of the life, the end of the client (EOF on the channel, even in
mid-life) and the life's time limit (`watch`). Whatever ends a life, everything that it started is
killed before the report is sent, at once or, where a kill is to take the life alone, when it has had time to
end by itself; when the client goes, so do the life and the root.

It loads neither pytest nor Hypothesis, and as little else as it can: a fork copies the page tables of all
that is loaded. It does not know what a life is for, nor judge its death.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import time
from typing import Any, NoReturn

from crashtests.forkserver import (
    child,
    processes,
    remove,
    watch,
    wire,
)

# -c, not -m: as `__main__` the module would exist twice, and a target's `announce` would find no witness in
# its copy.
SERVER_ARGUMENTS = ("-P", "-c", "from crashtests.forkserver.server import main; main()")
_COLD_ARGUMENTS = ("-P", "-c", "from crashtests.forkserver.child import main; main()")

OUTPUT_BYTES_MAX = 16 * 1024


class Server:
    """One target, one client, one life at a time."""

    def __init__(self, channel: socket.socket, lock: int, group_record: int, root: str) -> None:
        self._channel = channel
        self._lock = lock
        self._group_record = group_record
        self._root = root
        self._start: dict[str, Any] = {}
        self._pid = os.getpid()
        self._life: int | None = None
        self._function: child.Function | None = None
        self._collects_garbage = True
        self._kept: frozenset[int] = frozenset()
        self._lifeline, self._lifeline_held = os.pipe()

    def load(self, start: dict[str, Any]) -> None:
        """Load the target, unless lives are to be cold, and get ready to fork; may raise TargetError."""
        self._start = start
        # Should an import hang, the server dies of this, whether or not there still is a client to notice.
        signal.setitimer(signal.ITIMER_REAL, self._start["start_timeout_s"])
        if not self._start["cold"]:
            self._function = child.load(self._start["target"], self._start["setup"])
        signal.setitimer(signal.ITIMER_REAL, 0)
        # Else every life would print what the import has left in the buffers.
        sys.stdout.flush()
        sys.stderr.flush()
        # After loading, so that the target can neither undo this nor lose children of its own by it.
        self._kept = processes.children()
        processes.adopt_orphans()
        self._watch = watch.new_watch(self._channel.fileno())
        # Lives inherit these, whatever the target, or pytest before it, has done to them.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        # A collection in the server or in a life would write to, and so copy, every page that they share.
        gc.collect()
        self._collects_garbage = gc.isenabled()
        gc.disable()
        gc.freeze()
        self._channel.sendall(wire.encode({"ready": True}))

    def serve(self) -> None:
        """Run lives until the client is gone."""
        while (request := wire.receive(self._channel)) is not None:
            report = self._run(request)
            self._channel.sendall(wire.encode(report))

    def stop(self) -> None:
        """Leave no process and no directory behind."""
        if self._life is not None:
            os.kill(self._life, signal.SIGKILL)
            os.waitpid(self._life, 0)
            processes.end_stragglers(self._life, self._kept)
        for pid in self._kept & processes.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        remove.remove_tree(self._root)

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        # New files for each life: what has escaped from one must not write into the records of the next.
        output, witness = self._scratch("output"), self._scratch("witness")
        try:
            began = time.monotonic()
            self._life = pid = self._fork(request, output, witness)
            status, timed_out = self._await_death(pid, began + self._start["life_timeout_s"])
            ended = time.monotonic()
            self._life = None
            lived_on = 0
            try:
                if os.WIFSIGNALED(status) and not timed_out:
                    lived_on = self._let_live_on(request.get("lives_on_s", 0.0))
                lived_on_s = time.monotonic() - ended if lived_on else 0.0
            finally:
                survivors = processes.end_stragglers(pid, self._kept)
            os.pwrite(self._group_record, bytes(8), 0)
            return {
                "status": status,
                "timed_out": timed_out,
                "witnesses": _read_from(witness, 0),
                "output": _read_from(output, os.fstat(output).st_size - OUTPUT_BYTES_MAX),
                "duration_s": ended - began,
                "survivors": survivors,
                "lived_on": lived_on,
                "lived_on_s": lived_on_s,
            }
        finally:
            os.close(output)
            os.close(witness)

    def _scratch(self, name: str) -> int:
        """A file that has no name any more, so that nothing has to be cleaned up."""
        path = os.path.join(self._root, f".{name}")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        os.unlink(path)
        return descriptor

    def _fork(self, request: dict[str, Any], output: int, witness: int) -> int:
        pid = os.fork()
        if pid == 0:
            self._be_life(request, output, witness)
        # For the client, if the server is killed: the kernel then kills the life, but not what that started.
        os.pwrite(self._group_record, pid.to_bytes(8, "big"), 0)
        return pid

    def _be_life(self, request: dict[str, Any], output: int, witness: int) -> NoReturn:
        try:
            self._leave_server()
            child.enter(self._pid, self._lifeline, output, witness)
            if self._collects_garbage:
                gc.enable()
            if self._function is None:
                self._become_cold(request, witness)
            child.live(self._function, request)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(child.EXIT_UNCAUGHT)

    def _leave_server(self) -> None:
        self._watch.undo()
        # Not self._channel.close(): that is Python, whose every touched page has to be copied first.
        for descriptor in (self._channel.fileno(), self._lock, self._group_record, self._lifeline_held):
            os.close(descriptor)

    def _become_cold(self, request: dict[str, Any], witness: int) -> NoReturn:
        job = self._scratch("job")
        task = {"target": self._start["target"], "setup": self._start["setup"], "request": request}
        with open(job, "w", encoding="ascii", closefd=False) as file:
            json.dump(task, file)
        inherited = (self._lifeline, witness, job)
        for descriptor in inherited:
            os.set_inheritable(descriptor, True)
        numbers = [str(number) for number in (self._pid, *inherited)]
        os.execv(sys.executable, [sys.executable, *_COLD_ARGUMENTS, *numbers])

    def _let_live_on(self, limit_s: float) -> int:
        """Wait until what a killed life has started has ended by itself; return how many processes that was at first.

        Raises ClientGone.
        """
        if not limit_s:
            return 0
        deadline = time.monotonic() + limit_s
        living = processes.strays(self._kept)
        lived_on = len(living)
        # Their own children become ours as they die: look again.
        while living and self._watch.reap(min(living), deadline) is not None:
            living = processes.strays(self._kept)
        return lived_on

    def _await_death(self, pid: int, deadline: float) -> tuple[int, bool]:
        """Reap the life; return its wait status and whether the time limit killed it."""
        status = self._watch.reap(pid, deadline)
        if status is not None:
            return status, False
        os.kill(pid, signal.SIGKILL)  # it alone, so that what it has started can be counted first
        _, status = os.waitpid(pid, 0)
        # It may have ended by itself in the last moment, and then was not killed by us.
        return status, os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _read_from(descriptor: int, offset: int) -> str:
    size = os.fstat(descriptor).st_size
    offset = max(0, offset)
    return os.pread(descriptor, max(0, size - offset), offset).decode("utf-8", "backslashreplace")


def main() -> None:
    """Serve the client at the other end of the channel; the arguments are descriptors handed down by it, and the
    root, which has to go even if the client is killed before it has said a word.
    """
    channel_fd, lock, group_record = map(int, sys.argv[1:4])
    root = sys.argv[4]
    del sys.argv[1:]
    for descriptor in (channel_fd, lock, group_record):
        os.set_inheritable(descriptor, False)
    channel = socket.socket(fileno=channel_fd)
    server = Server(channel, lock, group_record, root)
    status = 0
    try:
        start = wire.receive(channel)
        if start is not None:
            server.load(start)
            server.serve()
    except child.TargetError as error:
        channel.sendall(wire.encode({"target_error": str(error)}))
    except (watch.ClientGone, ConnectionError):
        pass
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    finally:
        server.stop()
    # Not the interpreter's own way out: a thread that the target has started could hold that up for ever.
    sys.stderr.flush()
    os._exit(status)
