"""Scenes: one run with its store, its world and its script, that is started, killed and resumed.

A life that is to be killed is one of the fork server's; the one that resumes is the test's own process. This module is
loaded in both, so it imports nothing of pytest.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crashtests.unit.world import World, WorldModel
from harness import JsonStore, Model, Result, SqliteStore, Store, Tool, run_agent
from harness.checkpoint import Checkpoint

STORES: dict[str, type[Store]] = {"json": JsonStore, "sqlite": SqliteStore}

TASK = "Do it."


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
        self.directory = directory
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
        """A life in a process of its own that is killed at the n-th pass of `label`. Returns what it said.

        That process makes the scene anew from what can be told of it, so store, model and tools must be plain ones.
        """
        from crashtests.unit.server import server  # not in the server itself

        death = server().run(self._request(label, n))
        lines = death.output.splitlines()
        assert signal.SIGKILL == death.signal, (label, n, death)
        assert not death.timed_out, (label, n, death)
        assert f"[kill] {label}:{n}" == lines[-1]
        return lines[:-1]

    def _request(self, label: str, n: int) -> dict[str, Any]:
        store_class, model = type(self.store), self.model
        assert store_class in STORES.values(), f"{store_class} is not known to another process"
        assert type(model) is WorldModel, f"{model} is not known to another process"
        return {
            "do": "scene",
            "directory": str(self.directory),
            "store": next(name for name, known in STORES.items() if known is store_class),
            "responses": model.responses,
            "fresh_ids": model.fresh_ids,
            "marks": self.marks,
            "tools": [self.world.words_for(tool) for tool in self.tools],
            "label": label,
            "n": n,
        }

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
