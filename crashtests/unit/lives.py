"""Lives: a run in a forked child process that is ended by a real SIGKILL at a crash point, and resumed in the test's.

The parent believes the kernel and the child together: a life counts as killed only if it was signal 9 and the child
had announced the crash point. The child never comes back into the test: it leaves by `os._exit`.
"""

from __future__ import annotations

import gc
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from crashtests.unit.world import World, WorldModel
from harness import JsonStore, Model, Result, SqliteStore, Store, Tool, crash, run_agent
from harness.checkpoint import Checkpoint

STORES: dict[str, type[Store]] = {"json": JsonStore, "sqlite": SqliteStore}

both_stores = pytest.mark.parametrize("store_class", STORES.values(), ids=STORES)
both_protocols = pytest.mark.parametrize("marks", [True, False], ids=["marks", "no-marks"])

TASK = "Do it."

# A child that hangs is ended by the kernel, and its test fails.
_LIFE_MAX_S = 30


def killed(run: Callable[[], Result], label: str, n: int = 1) -> list[str]:
    """Run in a child that must be killed at the n-th pass of `label`. Returns what it said."""
    status, lines = _fork(run, crash.Armed(label, n))
    assert lines, (label, n, status)
    assert os.WIFSIGNALED(status), (label, n, lines)
    assert signal.SIGKILL == os.WTERMSIG(status), (label, n, lines)
    assert f"[kill] {label}:{n}" == lines[-1]
    return lines[:-1]


def _fork(run: Callable[[], Result], armed: crash.Armed) -> tuple[int, list[str]]:
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of threads in the parent, such as a test runner's; the child uses none of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _live(run, armed, write_end)
    os.close(write_end)
    with open(read_end, encoding="utf-8") as pipe:
        said = pipe.read()
    return os.waitpid(pid, 0)[1], said.splitlines()


def _live(run: Callable[[], Result], armed: crash.Armed, write_end: int) -> NoReturn:
    try:
        gc.disable()  # a collection would copy the parent's whole heap
        signal.alarm(_LIFE_MAX_S)
        os.dup2(write_end, 1)
        crash.listen(armed)
        say(f"survived: {run()}")
    except BaseException:
        say(traceback.format_exc())
    finally:
        os._exit(1)


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


class Scene:
    """One run in a directory of its own: its store, its world and its script, started, killed and resumed."""

    def __init__(
        self,
        directory: Path,
        store_class: type[Store],
        responses: Sequence[dict[str, Any]],
        *,
        marks: bool = True,
        fresh_ids: bool = False,
    ) -> None:
        directory.mkdir(exist_ok=True)
        self.world = World(directory / "world.log")
        self.store = store_class(directory / "state")
        self.tools: list[Tool] = []
        self.marks = marks
        self.model: Model = WorldModel(self.world, responses, fresh_ids=fresh_ids)

    def live(self, *, task: str | None = TASK, **options: Any) -> Result:
        """A life in this process: the run is started, or resumed if it is there."""
        chosen: dict[str, Any] = {"resume": "or-start", "started_marks": self.marks} | options
        return run_agent(self.model, task, self.tools, self.store, **chosen)

    def killed(self, label: str, n: int = 1) -> list[str]:
        """A life in a child that is killed at the n-th pass of `label`. Returns what it said."""
        return killed(lambda: self.live(say=say, warn=say), label, n)

    def completed(self) -> tuple[Result, list[str]]:
        """A life in this process that must come to the end of the task. Returns the result and what it said."""
        said: list[str] = []
        ended = self.live(say=said.append, warn=said.append)
        assert "done" == ended.status, ended.reason
        return ended, said

    @property
    def saved(self) -> Checkpoint:
        """What is on disk."""
        return self.store.read()[0]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.saved.messages

    def results(self) -> list[dict[str, Any]]:
        """The blocks that answer calls, in order."""
        answers = [m["content"] for m in self.messages[1:] if m["role"] == "user"]
        return [block for content in answers for block in content]

    def contents(self) -> list[Any]:
        """What the calls were answered with, in order."""
        return [block["content"] for block in self.results()]
