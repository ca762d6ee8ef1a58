"""A disk that fails, and what must be true of a run on it.

`FailingDisk` stands in for `os` inside `harness.durable`. It counts the calls that touch the disk and fails the k-th,
or all from the k-th on. It is as treacherous as a real disk: after a sync that failed, the kernel takes the lost pages
for written, so that a second sync of the same file succeeds and means nothing. A file that is put in place with
anything unsynced or lost in it is a lie, and noted.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crashtests.unit.bodies import asks, call, says, text
from crashtests.unit.world import World, WorldModel
from harness import Effect, Result, StateMissing, StopError, Store, Tool, current_tool_use_id, run_agent
from harness.settle import UNKNOWN_TEXT

TASK = "Do it."
BIG = "x" * 3000
SCRIPT = [asks(call("t1"), call("look", "look"), call("t2")), asks(text(BIG), call("t3")), says("Done.")]


class FailingDisk:
    """`os`, with a fault at the k-th call of the disk: an error (`number`), once or for ever, or a short write.

    `after`: what a write that fails has written before, 0 or half of its data. A short write has no `number`.
    """

    def __init__(self, k: int, number: int | None, *, for_ever: bool = False, calls: Sequence[str] = ()) -> None:
        self.k = k
        self.number = number
        self.for_ever = for_ever
        self.calls = calls or ("open", "write", "fsync", "rename")
        self.passed = 0
        self.failed: list[str] = []
        self.lies: list[str] = []
        self._dirty: set[int] = set()
        self._lost: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def repair(self) -> None:
        """No more faults; what was lost stays lost."""
        self.k, self.for_ever = 0, False

    def _fails(self, name: str) -> bool:
        if name not in self.calls:
            return False
        self.passed += 1
        fails = self.passed == self.k or (self.for_ever and self.passed > self.k)
        if fails:
            self.failed.append(name)
        return fails

    def _error(self) -> OSError:
        assert self.number is not None
        return OSError(self.number, os.strerror(self.number))

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        if self._fails("open"):
            raise self._error()
        return os.open(path, flags, mode)

    def write(self, fd: int, data: memoryview) -> int:
        self._dirty.add(os.fstat(fd).st_ino)
        if not self._fails("write"):
            return os.write(fd, data)
        written = os.write(fd, data[: len(data) // 2])
        if self.number is None:
            return written
        raise self._error()

    def fsync(self, fd: int) -> None:
        inode = os.fstat(fd).st_ino
        if self._fails("fsync"):
            self._lost.add(inode)
            raise self._error()
        os.fsync(fd)
        self._dirty.discard(inode)

    def rename(self, source: Path, target: Path) -> None:
        if os.stat(source).st_ino in self._dirty | self._lost:
            self.lies.append(str(target))
        if self._fails("rename"):
            raise self._error()
        os.rename(source, target)

    def unlink(self, path: Path) -> None:
        inode = os.stat(path).st_ino
        os.unlink(path)
        self._dirty.discard(inode)
        self._lost.discard(inode)


class Run:
    """A small run on a store: two turns, three side effects and a look."""

    def __init__(self, store: Store, world: World, output: str = "it is done") -> None:
        self.store = store
        self.world = world
        self.output = output
        self.warnings: list[str] = []
        self.tools = [self._tool("act", Effect.SIDE_EFFECT), self._tool("look", Effect.READ_ONLY)]

    def _tool(self, name: str, effect: Effect) -> Tool:
        def run(arguments: dict[str, Any]) -> str:
            key = current_tool_use_id()
            scene, ledger = type(self.store)(self.store.directory).read()
            assert key in [pending.tool_use_id for pending in scene.pending], "ran before its turn was saved"
            entry = ledger.get(key)
            assert effect is Effect.READ_ONLY or (entry is not None and not entry.finished), "ran without its mark"
            self.world.note("effect" if effect is Effect.SIDE_EFFECT else "entry", key)
            return self.output

        return Tool(name, f"Does {name}.", {"type": "object"}, run, effect=effect)

    def life(self) -> Result | StopError:
        """Start or resume, and go on to the end or to what stops it."""
        model = WorldModel(self.world, SCRIPT)
        try:
            return run_agent(model, TASK, self.tools, self.store, resume="or-start", warn=self.warnings.append)
        except StopError as error:
            return error

    def life_with_small_files(self, size_max: int) -> str:
        """A life in a process of its own, where the kernel lets no file grow beyond `size_max` bytes."""
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # of threads in the test runner, which the child has not
            pid = os.fork()
        if pid == 0:
            status = 3
            try:
                gc.disable()  # a collection would copy the parent's whole heap
                signal.alarm(30)
                resource.setrlimit(resource.RLIMIT_FSIZE, (size_max, size_max))
                ended = self.life()
                status = 2 if self.warnings else 0 if isinstance(ended, Result) and ended.status == "done" else 1
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return {0: "done", 1: "stopped", 2: "warned"}[status]

    def check(self) -> None:
        """Hold what the failing disk left against the contract, then resume on a disk that works."""
        reader = type(self.store)(self.store.directory)
        try:
            scene, ledger = reader.read()
        except StateMissing:
            assert [] == self.world.of("ask")
            before, unknown = [], list[str]()
        else:
            before = scene.messages
            open_entries = [e for c in scene.pending if (e := ledger.get(c.tool_use_id)) and not e.finished]
            unknown = [*ledger.unknowns(), *(entry.tool_use_id for entry in open_entries)]
        assert len(unknown) <= 1

        resumed = self.life()

        assert isinstance(resumed, Result), resumed
        assert ("done", "Done.", tuple(unknown)) == (resumed.status, resumed.answer, resumed.unknowns)
        messages = reader.read()[0].messages
        assert before == messages[: len(before)]
        self._check_told(messages, unknown)

    def _check_told(self, messages: list[dict[str, Any]], unknown: list[str]) -> None:
        """Every call was answered with the truth, and nothing was done twice."""
        results = {b["tool_use_id"]: b for m in messages[1:] if m["role"] == "user" for b in m["content"]}
        effects = self.world.of("effect")
        assert ["t1", "look", "t2", "t3"] == list(results)
        assert len(set(effects)) == len(effects)
        for tool_use_id, block in results.items():
            if tool_use_id in unknown:
                assert (UNKNOWN_TEXT, True) == (block["content"], block["is_error"])
            else:
                assert self.output == block["content"]
                assert tool_use_id in [*effects, "look"]
