"""Owns the client of the fork server: the one way the campaign runs a life and learns how it ended.

    with ForkServer("module:function") as server:
        run = server.new_run()
        death = server.run({"cwd": str(run), ...})

A server process loads the target once (`server`), then forks one child per life; the child calls
`function(request)` and leaves with the status that it returns, or announces a label and kills itself
(`child.announce` and `die`). A life has a session, an empty stdin and a time
limit of its own; whatever it started is dead when `run` returns. Client, server and lives die with each
other, whoever is killed first, and leave no directory (`root`) and no process
(`processes`) behind.

Limits. On Linux nothing escapes while the server lives; if client and server are killed together, the life
dies, but not processes that it started. Elsewhere a daemon with a session of its own escapes. What a life
prints is kept in a file below the root until the life ends, without a limit.

It does not know what a death means: a signal 9 nobody announced, or an announcement nobody died of, is
reported as is.
"""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from crashtests.forkserver import processes, wire
from crashtests.forkserver import root as roots
from crashtests.forkserver.remove import remove_tree
from crashtests.forkserver.server import SERVER_ARGUMENTS

# What the server may take over a life's time limit before it is given up for dead: killing and reaping only.
_GRACE_S = 30.0
# What a server that sees its client leave may take to clean up, and then to exit.
_CLOSE_TIMEOUT_S = 10.0
_EXIT_TIMEOUT_S = 5.0
_LOG_BYTES_MAX = 4096
# What a target may import of ours.
_PACKAGES = ("crashtests", "harness")
# Names that would make a life behave differently inside a test run than outside (without buffers a kill loses
# nothing), or reach a real API.
_UNWANTED = ("PYTEST_", "ANTHROPIC_", "COV", "CRASH_AFTER", "PYTHONUNBUFFERED")


class ForkServerError(RuntimeError):
    """The server, not a life, has failed: its target cannot be loaded, or it died. The life is unknown.

    The message names the target and the cause. A server that has raised this once is of no more use: close
    it.
    """

    def __init__(self, target: str, problem: str) -> None:
        super().__init__(f"fork server for {target!r}: {problem}")
        self.target = target


@dataclass(frozen=True, slots=True)
class Death:
    """How a life ended, as the kernel and the life itself tell it; `exit_status` or `signal` is None."""

    exit_status: int | None
    signal: int | None
    timed_out: bool
    """The time limit killed it."""
    witness: str | None
    """The label it announced last."""
    output: str
    """The last 16 KB of its stdout and stderr, in the order written."""
    duration_s: float
    survivors: int
    """Processes that it had started and that were still alive after its end; they have been killed."""
    witnesses: tuple[str, ...] = ()
    """All labels it announced; more than one is a crash point that did not kill."""
    lived_on: int = 0
    """Processes that it had started and that were left alone after its death, see "lives_on_s"; 0 if none was."""
    lived_on_s: float = 0.0
    """Until the last of those had ended, or was killed with the `survivors`."""

    @property
    def killed(self) -> bool:
        """It died where it said it would: signal 9, announced, and not sent by the time limit."""
        return self.signal == signal.SIGKILL and self.witness is not None and not self.timed_out


class ForkServer:
    """One target loaded in one server process; a context manager.

    - target: "module:function" or "path/to/file.py:function". The repository's root is on the server's path,
      a file's own directory too; the current directory is not.
    - life_timeout_s: what a life may take, by the wall clock.
    - env: variables to add to the environment, which is otherwise this process's own, less what is pytest's,
      coverage's, the API's or unbuffers the output, with PYTHONHASHSEED=0, and with the root for temporary files.
    - root: the directory to own, which must be new or empty (else FileExistsError). If not given, it is made
      in memory (/dev/shm) or where CRASHTESTS_TMPDIR says.
    - setup: JSON, passed to the function `prepare` of the target's module before the first life.
    - start_timeout_s: what loading the target may take.
    - cold: load the target in every life, in an interpreter of its own, rather than once in the server.

    ForkServerError if the target cannot be loaded.
    """

    def __init__(
        self,
        target: str,
        *,
        life_timeout_s: float = 10.0,
        python: str = sys.executable,
        env: Mapping[str, str] | None = None,
        root: Path | None = None,
        setup: Mapping[str, Any] | None = None,
        start_timeout_s: float = 60.0,
        cold: bool = False,
    ) -> None:
        start = {
            "target": _absolute(target),
            "setup": None if setup is None else dict(setup),
            "life_timeout_s": life_timeout_s,
            "start_timeout_s": start_timeout_s,
            "cold": cold,
        }
        wire.encode(start)  # what is not JSON must fail before there is anything to clean up
        self.target = target
        self._life_patience_s = life_timeout_s + _GRACE_S
        self._runs = 0
        self._problem: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: int | None
        self.root, self._lock = roots.create(root)
        self._log = tempfile.TemporaryFile(dir=self.root)  # noqa: SIM115 - closed by close()
        self._group_record = tempfile.TemporaryFile(dir=self.root)  # noqa: SIM115 - closed by close()
        self._group_record.write(bytes(8))  # now, so that the server's writes need no space
        self._group_record.flush()
        self._channel, theirs = socket.socketpair()
        try:
            with theirs:
                self._spawn(python, env, theirs)
            self._ask(wire.encode(start), start_timeout_s + _GRACE_S, "while it loaded the target")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The server's process id; None if it could not even be started."""
        return None if self._process is None else self._process.pid

    def new_run(self) -> Path:
        """Make a fresh directory below the root."""
        self._runs += 1
        run = self.root / f"run-{self._runs}"
        run.mkdir()
        return run

    def drop_run(self, path: Path) -> None:
        """Remove a directory that `new_run` has made, whatever is in it, unless it is gone already."""
        if path.parent != self.root or not path.name.startswith("run-"):
            raise ValueError(f"path={str(path)!r} must be a directory that new_run() has made below {self.root}")
        remove_tree(path)

    def run(self, request: Mapping[str, Any]) -> Death:
        """Run one life and return how it ended.

        The request is JSON, and reaches the function as it is. Three keys mean something here too: "cwd", the
        directory to start in; "random_seed", for `random.seed` (without it `random` is seeded afresh, as
        in any new process); and "lives_on_s": if this life dies of a signal, what it has started gets so long
        to end by itself (Linux; elsewhere it is killed at once, as it is without this key).

        ForkServerError if the server is dead; TypeError or ValueError if the request is not JSON.
        """
        message = wire.encode(dict(request))
        report = self._ask(message, self._life_patience_s, "in the middle of a life")
        return _death(self.target, report)

    def close(self) -> None:
        """End the server, and what is left of a life, and remove the root. Closing twice is closing once."""
        if self._problem is None:
            self._problem = "it is closed"
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
            self._channel.settimeout(_CLOSE_TIMEOUT_S)
            while self._channel.recv(4096):  # until the server has cleaned up and gone; what it says is of no interest
                pass
        self._end_process()
        self._channel.close()
        if self._lock is not None:
            self._log.close()
            self._group_record.close()
            remove_tree(self.root)
            os.close(self._lock)
            self._lock = None

    def _spawn(self, python: str, env: Mapping[str, str] | None, channel: socket.socket) -> None:
        handed_down = (channel.fileno(), self._lock or 0, self._group_record.fileno())
        try:
            self._process = subprocess.Popen(
                [python, *SERVER_ARGUMENTS, *map(str, handed_down), str(self.root)],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=handed_down,
                env=_environment(env, self._packages(python), temporary=self.root),
                start_new_session=True,  # Ctrl-C is for the client alone: the server then sees it go
            )
        except OSError as error:
            raise ForkServerError(self.target, f"cannot start python={python!r}: {error}") from error

    def _packages(self, python: str) -> Path:
        """The directory that a server finds our packages in: for another interpreter, one with nothing else in it."""
        installed = Path(__file__).resolve().parent.parent.parent
        if python == sys.executable:
            return installed
        # Where ours are installed there may be others, which would come before its own.
        alone = self.root / "packages"
        alone.mkdir()
        for package in _PACKAGES:
            (alone / package).symlink_to(installed / package)
        return alone

    def _ask(self, message: bytes, patience_s: float, doing: str) -> dict[str, Any]:
        if self._problem is not None:
            raise ForkServerError(self.target, f"{self._problem}: start a new one")
        # Should an exception come between, the answer to this would be taken for that to the next message.
        self._problem = "it was interrupted"
        answer = None
        try:
            self._channel.settimeout(patience_s)
            self._channel.sendall(message)
            answer = wire.receive(self._channel)
        except TimeoutError:
            self._lose(f"it has not answered for {patience_s:g} s {doing}")
        except ConnectionError:
            pass
        except BaseException:
            with contextlib.suppress(OSError):
                self._channel.shutdown(socket.SHUT_WR)  # ends the life now rather than at close()
            raise
        if answer is None:
            self._lose(f"it died {doing}")
        if "target_error" in answer:
            raise ForkServerError(self.target, answer["target_error"])
        self._problem = None
        return answer

    def _lose(self, problem: str) -> NoReturn:
        status = self._end_process()
        if status == -signal.SIGALRM:
            problem += ": loading the target took longer than start_timeout_s"
        elif status is not None:
            problem += f" ({_status_text(status)})"
        self._problem = problem
        said = _tail(self._log.fileno())
        raise ForkServerError(self.target, problem + (f"; it had printed:\n{said}" if said else ""))

    def _end_process(self) -> int | None:
        """Wait for the server, which is on its way out, or kill it, and what it left; return its status."""
        if self._process is None:
            return None
        try:
            status = self._process.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if not self._group_record.closed:
            group = int.from_bytes(os.pread(self._group_record.fileno(), 8, 0), "big")
            if group:  # a life was under way
                processes.kill_group(group)
        return status


def cold_life(
    target: str,
    request: Mapping[str, Any],
    *,
    life_timeout_s: float = 10.0,
    python: str = sys.executable,
    env: Mapping[str, str] | None = None,
    root: Path | None = None,
    setup: Mapping[str, Any] | None = None,
) -> Death:
    """Run one life in a fresh interpreter that loads the target itself; for the rest, see ForkServer."""
    with ForkServer(
        target, life_timeout_s=life_timeout_s, python=python, env=env, root=root, setup=setup, cold=True
    ) as server:
        return server.run(request)


def _absolute(target: str) -> str:
    place, colon, function = target.rpartition(":")
    if not (place and colon and function.isidentifier()):
        raise ForkServerError(target, "a target must be 'module:function' or 'path/to/file.py:function'")
    return f"{os.path.abspath(place)}:{function}" if place.endswith(".py") else target


def _environment(added: Mapping[str, str] | None, packages: Path, temporary: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_UNWANTED)}
    environment["PYTHONHASHSEED"] = "0"
    # What a life makes there and is killed before it removes it goes with the root, and is in memory if that is.
    environment["TMPDIR"] = str(temporary)
    environment.update(added or {})
    path = [str(packages), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    return environment


def _death(target: str, report: dict[str, Any]) -> Death:
    witnesses = [ast.literal_eval(line) for line in report["witnesses"].split("\n") if line]
    for record in witnesses:
        if isinstance(record, dict):  # only a cold life loads its target after its birth
            raise ForkServerError(target, record["target_error"])
    status = report["status"]
    signalled = os.WIFSIGNALED(status)
    return Death(
        exit_status=None if signalled else os.WEXITSTATUS(status),
        signal=os.WTERMSIG(status) if signalled else None,
        timed_out=report["timed_out"],
        witness=witnesses[-1] if witnesses else None,
        output=report["output"],
        duration_s=report["duration_s"],
        survivors=report["survivors"],
        witnesses=tuple(witnesses),
        lived_on=report["lived_on"],
        lived_on_s=report["lived_on_s"],
    )


def _status_text(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"signal {-status}, {signal.strsignal(-status)}"


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return (
        os.pread(descriptor, _LOG_BYTES_MAX, max(0, size - _LOG_BYTES_MAX)).decode("utf-8", "backslashreplace").rstrip()
    )
