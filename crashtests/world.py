"""The world that the tools change, and its log, which the harness under test cannot reach.

A tool's effect *is* a line in the log, appended through a file descriptor of the world's own, so what happened is
known however the process ended. Each line is a JSON object with the pid and the number of the life; `event` is one of

    ask      the model was asked: `ask` (count over all lives), `messages`, `prefix` (a digest), `broken` (rules)
    answer   it answered: `calls` ([id, tool] each), `stop_reason`, `content`
    begin    a tool was entered: `id`, `tool`, and `input` if the harness showed what it hands to tools
    effect   its effect happened: `id`
    end      it returned or raised: `id`, `raised`
    verify   its verify was asked: `id`, `verdict`
    power    power was lost, at the last crash point passed: `lost` (what the disk no longer holds),
             `others` (the losses that would have left yet another state)
    at       crash points were passed: `labels`, since the event before
    held     this life waits at a crash point: `label`; and `released`, it goes on (rivals.py)
    ending   the harness said how this life ended: `status`, `reason`, `told`, `result` (see `Ending`)

This module runs in the lives. It knows the kinds of tools (kinds.py), not the harness.
"""

from __future__ import annotations

import json
import os
from _thread import RLock  # not from `threading`, which does work of its own at every fork
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from crashtests.kinds import TOOL_KINDS, ToolKind

Event = dict[str, Any]

BEFORE_EFFECT = "before-effect"
AFTER_EFFECT = "after-effect"

# The world's own crash points: they exist for every subject.
WORLD_POINTS = {
    BEFORE_EFFECT: "a tool was entered, nothing has happened yet",
    AFTER_EFFECT: "its effect has happened, it has not returned yet",
}

# One more for subjects that have none of their own behind a tool.
TOOL_RETURNED = "tool-returned"
RETURN_POINTS = {TOOL_RETURNED: "it has returned, or raised, and the harness has not seen what"}


class LogReader:
    """Reads a log as it grows: each `read` gives the events since the one before. Each line is one write, so whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def skip(self) -> None:
        """Pass over what is there already."""
        self._offset = self._path.stat().st_size

    def read(self) -> list[Event]:
        try:
            with self._path.open("rb") as log:
                log.seek(self._offset)
                data = log.read()
        except FileNotFoundError:
            return []
        self._offset += len(data)
        return [json.loads(line) for line in data.decode().splitlines()]


def step_of(tool_use_id: str) -> str:
    """The step a call belongs to: `call_2-1_a3`, the third ask's, is step `2-1`, turn 2, position 1."""
    return tool_use_id.split("_")[1]


class World:
    """The log and the tools of one life.

    `point` is called at each of the world's crash points, `return_point` at the one behind a tool. `tools_end`: tools
    that end the process do so.
    """

    def __init__(
        self,
        path: Path,
        life: int,
        point: Callable[[str], None],
        *,
        return_point: Callable[[str], None] = lambda label: None,
        tools_end: bool = True,
    ) -> None:
        self._lock = RLock()  # a harness may run tools on threads of its own
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._past = LogReader(path).read()
        self._present: list[Event] = []
        self._passed: list[str] = []
        self._life = life
        self._pid = os.getpid()
        self._point = point
        self._return_point = return_point
        self._tools_end = tools_end
        self.ended_by_tool = False
        """Whether a tool of this life has raised what ends a process."""

    def afresh(self) -> World:
        """The same life's world for another process, with all that was logged till now as past, and no crash points."""
        return World(self._path, self._life, lambda label: None, tools_end=self._tools_end)

    @property
    def asks(self) -> int:
        """How often the model has been asked in all lives before this one."""
        return sum(event["event"] == "ask" for event in self._past)

    def log(self, event: str, **fields: Any) -> None:
        with self._lock:
            self.flush()
            self._present.append(self._append(event, fields))

    def passed(self, label: str) -> None:
        """A crash point was passed. Written with the next event; `flush` before a planned death."""
        with self._lock:
            self._passed.append(label)

    def flush(self) -> None:
        """Write what was passed and is not yet in the log."""
        with self._lock:
            if self._passed:
                self._append("at", {"labels": self._passed})
                self._passed = []

    def _append(self, event: str, fields: dict[str, Any]) -> Event:
        line = {"life": self._life, "pid": self._pid, "event": event, **fields}
        os.write(self._fd, json.dumps(line).encode() + b"\n")
        return line

    def known(self) -> Iterator[Event]:
        """Everything that has happened so far but the crash points of this life."""
        yield from self._past
        yield from self._present

    def latest(self, step: str) -> str:
        """The id of the call that the model made last for this step."""
        calls: list[str] = [call for event in self.known() if event["event"] == "answer" for call, _ in event["calls"]]
        return [call for call in calls if step_of(call) == step][-1]

    def past(self, event: str, tool_use_id: str) -> Iterator[Event]:
        """Events of a call in the lives before this one."""
        return (e for e in self._past if e["event"] == event and e["id"] == tool_use_id)

    def run(self, kind: ToolKind, tool_use_id: str, input: dict[str, Any] | None = None) -> Any:
        """What a tool of this kind does when it is called, and what it returns.

        `input`: what the harness has handed to it, if that is known. It is the tool's own, which uses it up.
        """
        entered_before = any(e["event"] == "begin" and step_of(e["id"]) == step_of(tool_use_id) for e in self._past)
        self.log("begin", id=tool_use_id, tool=kind.name, **({} if input is None else {"input": input}))
        if input is not None:
            input.clear()
        self._point(BEFORE_EFFECT)
        ends = kind.ends if self._tools_end and not entered_before else None
        if kind.raises == "before":
            self._raise(kind, tool_use_id)
        if ends and not kind.ends_after:
            self._end_process(ends)
        if kind.effect != "read_only":
            self.log("effect", id=tool_use_id)
        self._point(AFTER_EFFECT)
        if ends:
            self._end_process(ends)
        if kind.raises == "after":
            self._raise(kind, tool_use_id)
        self.log("end", id=tool_use_id, raised=False)
        self._return_point(TOOL_RETURNED)
        return kind.output

    def verify(self, kind: ToolKind, tool_use_id: str) -> Literal["done", "not_done", "cannot_tell"]:
        """What the verify of a tool of this kind says: the truth, nothing, or it raises."""
        done = any(self.past("effect", tool_use_id))
        verdict = {"truth": "done" if done else "not_done", "cannot_tell": "cannot_tell"}.get(
            kind.verify or "", "raises"
        )
        self.log("verify", id=tool_use_id, verdict=verdict)
        if verdict == "raises":
            raise RuntimeError("the other side does not answer")
        return verdict  # type: ignore[return-value]  # narrowed above

    def _raise(self, kind: ToolKind, tool_use_id: str) -> None:
        self.log("end", id=tool_use_id, raised=True)
        self._return_point(TOOL_RETURNED)
        raise ValueError(failure_text(kind))

    def _end_process(self, how: str) -> None:
        self.ended_by_tool = True
        if how == "SystemExit":
            raise SystemExit("the tool ends the process")
        raise KeyboardInterrupt


@dataclass(frozen=True, slots=True)
class WorldTool:
    """A tool of the world in a form that any subject can wrap."""

    kind: ToolKind
    world: World
    description = "A tool of the world."
    input_schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}  # noqa: RUF012  # never changed

    @property
    def name(self) -> str:
        return self.kind.name

    def run(self, tool_use_id: str, input: dict[str, Any] | None = None) -> Any:
        return self.world.run(self.kind, tool_use_id, input)

    def run_step(self, step: str) -> Any:
        """`run` for a tool that knows the step of its call from its input, and cannot learn the id."""
        return self.world.run(self.kind, self.world.latest(step))


def failure_text(kind: ToolKind) -> str:
    """The message of the exception that a raising tool raises."""
    return f"{kind.name} failed"


def tools_of(kinds: Iterator[str], world: World) -> list[WorldTool]:
    """The tools that a script calls, but for those that the model makes up; never none, or it could not call at all."""
    known = [name for name in kinds if TOOL_KINDS[name].known]
    return [WorldTool(TOOL_KINDS[name], world) for name in known or ["read"]]
