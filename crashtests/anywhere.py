"""Lives that can be killed anywhere: at every line of the harness that runs, and at every system call on a file.

Two targets of the fork server, each a life (life.py) with one more way to die. In both, a kill at a label is what it
always is. In `at_line`, `any:k` is the k-th line of the harness that this life executes; it is announced as the line
and its pass, `store.187:2`. In `at_call` a label that no crash point has is a system call, `rename:3` the third, and
the process dies before the kernel has begun it; strace, attached to the life from inside, sends the signal.

`any:SURVEY` kills nobody: it writes down where there is something to kill at. For lines that is an event `lines` in
the world's log; for calls, a file `calls` beside the run's directory.

This module runs in the lives. It does not know what the states are compared with (completeness.py).
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from crashtests import life
from crashtests.forkserver.child import announce, die
from crashtests.schedule import ANY

SURVEY = 999_999
CALLS_FILE = "calls"

# What can change a file's content or a name; a sync changes neither while the machine stays up. `?` marks those that
# not every architecture has.
CALLS = (
    *("openat", "write", "pwrite64", "writev", "ftruncate", "unlinkat", "mkdirat", "renameat2", "linkat", "symlinkat"),
    *("?open", "?creat", "?mkdir", "?rename", "?renameat", "?unlink", "?rmdir", "?truncate", "?link", "?symlink"),
    *("?fallocate", "?copy_file_range", "?sendfile", "?pwritev", "?pwritev2"),
)

# Not by importing it: a planted bug must be installed before.
_HARNESS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "harness", "")
# A crash point's own code is the same for all of them, and stands between nothing.
_NOT_TRACED = _HARNESS + "crash.py"

prepare = life.prepare


def at_line(request: dict[str, Any]) -> int:
    """Live a life that `any:k` kills at the k-th line of the harness that it executes."""
    if request["kill"] is None or request["kill"][0] != ANY:
        return life.live(request)
    k = int(request["kill"][1])
    lines = _Survey(request) if k == SURVEY else _Lines(k)
    sys.settrace(lines.trace)
    try:
        return life.live(request | {"kill": None})
    finally:
        sys.settrace(None)
        lines.end()


def covered(request: dict[str, Any]) -> int:
    """Live a life that writes down which lines of the harness it has executed, if it is not killed before."""
    lines = _Covered(request)
    sys.settrace(lines.trace)
    try:
        return life.live(request)
    finally:
        sys.settrace(None)
        lines.end()


class _Lines:
    """Counts the lines of the harness as they are about to be executed, and dies at the k-th."""

    def __init__(self, k: int) -> None:
        self._k = k
        self.executed = 0
        self._passes: Counter[tuple[str, int]] = Counter()

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        # The name may have a suffix: "(planted bug)".
        name = frame.f_code.co_filename
        return self._line if name.startswith(_HARNESS) and not name.startswith(_NOT_TRACED) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.executed += 1
            line = frame.f_code.co_filename, frame.f_lineno
            self._passes[line] += 1
            self.pass_line(line, self._passes[line])
        return self._line

    def pass_line(self, line: tuple[str, int], n: int) -> None:
        if self.executed == self._k:
            die(f"{_name(line)}:{n}")

    def end(self) -> None:
        """The life has ended by itself."""


def _name(line: tuple[str, int]) -> str:
    path, number = line
    return f"{os.path.basename(path).partition('.')[0]}.{number}"


class _Survey(_Lines):
    """Kills nobody and writes down how many lines are executed, and which of them tell most.

    `firsts`: each line, by name, with its first k; `changes`: each k that finds other files than the k before.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(SURVEY)
        self._life = request["life"]
        self._log = Path(request["run"], request["log"])
        self._state = Path(request["run"], "state")
        self._digest = b""
        self._firsts: dict[str, int] = {}
        self._changes: list[int] = []

    def pass_line(self, line: tuple[str, int], n: int) -> None:
        digest = self._digest_of_files()
        if digest != self._digest:
            self._changes.append(self.executed)
        if n == 1:
            self._firsts[_name(line)] = self.executed
        self._digest = digest

    def end(self) -> None:
        event = {"life": self._life, "pid": os.getpid(), "event": "lines", "executed": self.executed}
        with self._log.open("ab") as log:
            log.write(json.dumps(event | {"firsts": self._firsts, "changes": self._changes}).encode() + b"\n")

    def _digest_of_files(self) -> bytes:
        digest = hashlib.blake2b(str(self._log.stat().st_size).encode())
        for directory, names, files in os.walk(self._state):
            digest.update(repr((directory, sorted(names))).encode())
            for name in sorted(files):
                with open(os.path.join(directory, name), "rb") as file:
                    digest.update(name.encode() + b"\0" + file.read())
        return digest.digest()


class _Covered(_Survey):
    """`firsts` alone."""

    def pass_line(self, line: tuple[str, int], n: int) -> None:
        if n == 1:
            self._firsts[_name(line)] = self.executed


def at_call(request: dict[str, Any]) -> int:
    """Live a life that a label such as `rename:3` kills right before its third such system call."""
    label, n = request["kill"][:2] if request["kill"] else (None, 0)
    if label != ANY and label not in [call.removeprefix("?") for call in CALLS]:
        return life.live(request)
    if label == ANY:
        trace = Path(request["run"]).with_name(CALLS_FILE)
        options = ["-e", f"trace={','.join(CALLS)}", "-y", "-s", "0", "-o", str(trace)]
    else:
        announce(f"{label}:{n}")
        options = ["-e", f"trace={label}", "-e", f"inject={label}:signal=SIGKILL:when={n}", "-o", os.devnull]
    tracer = attach(options)
    status = life.live(request | {"kill": None})
    tracer.terminate()  # it detaches, and has then written everything
    tracer.wait()
    return status


def attach(options: list[str]) -> subprocess.Popen[bytes]:
    """strace, once it has hold of this process. Raises `RuntimeError` if it may not, `OSError` if there is none."""
    tracer = subprocess.Popen(["strace", *options, "-p", str(os.getpid())], stderr=subprocess.PIPE)
    said = tracer.stderr.readline() if tracer.stderr else b""
    if b"attached" not in said:
        with tracer:  # it has ended
            raise RuntimeError(f"strace cannot attach to this process: {said.decode(errors='replace')}")
    return tracer
