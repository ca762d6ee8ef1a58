"""Small evidence made by hand, for the tests of those who judge it: what a log and the disk would have said.

A story is told in events, as the world logs them (world.py); nothing is executed.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

from crashtests.evidence import Evidence, LifeEvidence
from crashtests.forkserver.client import Death
from crashtests.schedule import parse, parse_kill
from crashtests.subject import Ending, Life, Scene, Subject
from crashtests.world import Event

# The call of a script of one turn and one call, and the same step asked again.
ID, AGAIN = "call_1-1_a1", "call_1-1_a2"
ANSWER = "All done."
USER = {"role": "user", "content": "Do what the script says."}
CLOSING = {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]}


class Exact(Subject):
    """Promises the reconcile table."""

    name = "exact"
    settles_exactly = True

    def live(self, life: Life) -> Ending:
        raise AssertionError("a story is not lived")


class Strict(Exact):
    """Is bound by the disputed rules as well, and sends back what it was sent."""

    name = "strict"
    strict = True


class Loose(Exact):
    """Promises the contract only."""

    name = "loose"
    settles_exactly = False


def event(name: str, **fields: Any) -> Event:
    return {"life": 1, "pid": 1, "event": name, **fields}


def ask(number: int, *messages: dict[str, Any], broken: Sequence[tuple[str, str]] = ()) -> Event:
    return event("ask", ask=number, position=0, messages=list(messages), broken=[list(rule) for rule in broken])


def answer(*calls: tuple[str, str]) -> Event:
    return event("answer", calls=[list(call) for call in calls], stop_reason="tool_use" if calls else "end_turn")


def at(*labels: str) -> Event:
    """Crash points that were passed; those called `renamed` say that a write is on disk."""
    return event("at", labels=list(labels))


def ran(tool_use_id: str = ID, tool: str = "pay", *, raised: bool = False) -> list[Event]:
    """A tool that was entered, had its effect and returned."""
    return [*begun(tool_use_id, tool), event("end", id=tool_use_id, raised=raised)]


def begun(tool_use_id: str = ID, tool: str = "pay") -> list[Event]:
    """A tool that was entered, had its effect, and never returned."""
    return [event("begin", id=tool_use_id, tool=tool), event("effect", id=tool_use_id)]


def verified(verdict: str, tool_use_id: str = ID) -> Event:
    return event("verify", id=tool_use_id, verdict=verdict)


def ending(status: str = "done", reason: str = "", told: str = "") -> Event:
    return event("ending", status=status, reason=reason, told=told)


def turn(tool_use_id: str = ID, tool: str = "pay") -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": tool_use_id, "name": tool, "input": {}}]}


def result(text: str, tool_use_id: str = ID, *, is_error: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": tool_use_id, "content": text}
    return {"role": "user", "content": [block | {"is_error": True} if is_error else block]}


def scene(*messages: dict[str, Any], status: str = "running", **fields: Any) -> Scene:
    return Scene(list(messages), status=status, **fields)


def whole(text: str = "paid", tool_use_id: str = ID, *, is_error: bool = False, tool: str = "pay") -> Scene:
    """The scene of a run that is done, with this result in it."""
    messages = [USER, turn(tool_use_id, tool), result(text, tool_use_id, is_error=is_error), CLOSING]
    return scene(*messages, status="done", pending=(), turns=1, tokens_used=215, answer=ANSWER)


def life(*events: Event | list[Event], killed: str | None = None, **fields: Any) -> LifeEvidence:
    """One life, numbered by `evidence`. `killed`: the label:n where it was, none if it ended by itself."""
    flat = [one for group in events for one in (group if isinstance(group, list) else [group])]
    death = Death(
        exit_status=None if killed else 0,
        signal=signal.SIGKILL if killed else None,
        timed_out=False,
        witness=killed,
        output="",
        duration_s=0.01,
        survivors=0,
    )
    given = {"resume": False, "planned": None, "before": None, "after": None, "changed": None, **fields}
    return LifeEvidence(number=1, death=death, events=flat, **given)


def evidence(line: str, *lives: LifeEvidence) -> Evidence:
    """All lives of the schedule `line`; those after the first resume, and find what the one before has left."""
    numbered = []
    before: Scene | None = None
    for number, one in enumerate(lives, start=1):
        events = [{**each, "life": number} for each in one.events]
        planned = parse_kill(one.death.witness) if one.death.witness else one.planned
        numbered.append(
            LifeEvidence(number, number > 1, planned, one.death, events, one.before or before, one.after, one.changed)
        )
        before = one.after
    schedule = parse(line)
    return Evidence(schedule, schedule, tuple(numbered))


def uninterrupted(line: str = "v1 json marks [pay] end", tool: str = "pay", text: str = "paid") -> Evidence:
    """The whole run of a script of one call, without a kill."""
    closed = whole(text, tool=tool)
    return evidence(
        line,
        life(
            ask(1, USER),
            answer((ID, tool)),
            at("save-a.renamed", "started.renamed"),
            ran(ID, tool),
            at("effect.renamed", "save-b.renamed"),
            ask(2, *closed.messages[:3]),
            answer(),
            ending(),
            after=closed,
        ),
    )
