"""How each call must be settled, foretold from where the process died. Binds subjects that promise our reconcile table.

The foreteller follows the world log: which calls a life made durable as pending, which of them it marked as started or
recorded, and what had happened in the world. At each resume that gives the one right way to settle each pending call,
and the result that the model must be shown in the end. It shares no code with the harness, so that saying "unknown"
where the truth could have been known is found out just as running something twice is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from crashtests.evidence import Evidence, LifeEvidence
from crashtests.kinds import TOOL_KINDS
from crashtests.world import Event

# The crash point behind which a write is on disk, as a killed process leaves it.
_DURABLE = ("renamed", "after-commit")
# Of these, those at which the name that it is under was not synced yet: a loss of power may take the write back.
_NOT_YET_NAMED = "renamed"

UNKNOWN_SAYS = "State unknown"

# The rows of the reconcile table, as the summary counts them.
ROWS = (
    "finished: reuse",
    "no such tool",
    "read-only: run",
    "not started: run",
    "idempotent: run again",
    "verify: done",
    "verify: not done",
    "verify: cannot tell",
    "unknown",
)


@dataclass(slots=True)
class _Known:
    """What is durable of one call, and what the world knows of it."""

    tool: str
    marked: bool = False
    effect: bool = False
    came_out: bool = False  # in this life: it returned, raised, or verify gave its outcome
    settled: str | None = None  # "real", "unknown" or "no tool" once it is recorded


@dataclass(slots=True)
class Foretold:
    """What was foretold, and where the harness did otherwise. `rows` counts the reconcile rows that resumes met."""

    problems: list[str] = field(default_factory=list)
    rows: Counter[str] = field(default_factory=Counter)
    results: dict[str, tuple[str, str]] = field(default_factory=dict)
    """`tool_use_id` -> (what it was settled as, what the model must be shown)."""


def foretell(evidence: Evidence) -> Foretold:
    """Hold every life against what must happen in it."""
    follower = _Follower(evidence)
    for life in evidence.lives:
        if not life.hindered_by:  # such a one must settle nothing
            follower.follow(life)
    for tool_use_id, known in follower.calls.items():
        if known.settled is not None:
            shown = {"real": TOOL_KINDS[known.tool].shown, "unknown": UNKNOWN_SAYS, "no tool": known.tool}
            follower.foretold.results[tool_use_id] = (known.settled, shown[known.settled])
    return follower.foretold


class _Follower:
    """Walks through the events of all lives and keeps what is known at each moment."""

    def __init__(self, evidence: Evidence) -> None:
        self._marks = evidence.schedule.marks
        self.calls: dict[str, _Known] = {}
        self.foretold = Foretold()
        self._pending: list[str] = []
        self._answered: list[tuple[str, str]] = []

    def follow(self, life: LifeEvidence) -> None:
        self._left = row = {call: self._row(call) for call in self._pending} if life.resume else {}
        self._to_settle = [call for call in self._pending if self.calls[call].settled is None]
        seen: dict[str, list[str]] = {}
        for known in self.calls.values():
            known.came_out = False
        self._in_life: set[str] = set()
        for event in _as_lost(life):
            name = event["event"]
            if name == "answer":
                calls = [(tool_use_id, tool) for tool_use_id, tool in event["calls"]]
                # The last call of a response that was cut short may be half a call: none of it may be run.
                self._answered = calls if event["stop_reason"] == "tool_use" else []
            elif name == "at":
                for label in event["labels"]:
                    self._pass(life, label)
            elif name in ("begin", "effect", "end", "verify"):
                self._happen(name, event["id"], event.get("verdict"))
                seen.setdefault(event["id"], []).append(event.get("verdict") or name)
        for call, expected in row.items():
            self._compare(life, call, expected, seen.get(call, []), whole=call in self._in_life)

    def _row(self, call: str) -> str:
        """The row of the reconcile table that fits a pending call: an independent statement of it."""
        known = self.calls[call]
        kind = TOOL_KINDS[known.tool]
        if known.settled is not None:
            return "finished: reuse"
        if not kind.known:
            return "no such tool"
        if kind.effect == "read_only":
            return "read-only: run"
        if self._marks and not known.marked:
            return "not started: run"
        if kind.effect == "idempotent":
            return "idempotent: run again"
        if kind.verify == "truth":
            return "verify: done" if known.effect else "verify: not done"
        return "verify: cannot tell" if kind.verify else "unknown"

    def _pass(self, life: LifeEvidence, label: str) -> None:
        write, _, stage = label.partition(".")
        if stage not in _DURABLE:
            return
        if write == "save-a":
            self._pending = [tool_use_id for tool_use_id, _ in self._answered]
            self.calls.update({tool_use_id: _Known(tool) for tool_use_id, tool in self._answered})
            self._to_settle = list(self._pending)
        elif write in ("started", "effect") and not self._to_settle:
            self.foretold.problems.append(f"life {life.number} wrote {label} with no call to settle")
        elif write == "started":
            self.calls[self._to_settle[0]].marked = True
        elif write == "effect":
            self._record(self._to_settle.pop(0))
        elif write == "save-b":
            self._pending = []

    def _record(self, call: str) -> None:
        known = self.calls[call]
        self._in_life.add(call)
        known.settled = "no tool" if not TOOL_KINDS[known.tool].known else "real" if known.came_out else "unknown"
        if known.settled == "unknown" and call not in self._left:
            self.foretold.problems.append(
                f"call {call} was not run in the life that it was made in, and cannot have begun"
            )

    def _happen(self, name: str, call: str, verdict: str | None) -> None:
        known = self.calls.get(call)
        if known is None:
            self.foretold.problems.append(f"call {call} was entered ({name}) although its turn was never saved whole")
            return
        if name == "begin" and self._to_settle[:1] != [call]:
            self.foretold.problems.append(
                f"call {call} was entered out of order; its turn had {self._to_settle} to settle"
            )
        if name == "verify" and call not in self._left:
            self.foretold.problems.append(f"verify was asked of call {call} in the life that it was made in")
        changes = TOOL_KINDS[known.tool].effect != "read_only"
        if name == "begin" and self._marks and changes and not known.marked:
            self.foretold.problems.append(f"call {call} was entered before its started mark was on disk")
        known.effect |= name == "effect"
        known.came_out |= name == "end" or verdict == "done"

    def _compare(self, life: LifeEvidence, call: str, row: str, seen: list[str], *, whole: bool) -> None:
        """`seen`: what happened to the call in this life; `whole`: the life got to the end of settling it."""
        self.foretold.rows[row] += bool(seen) or whole or row == "finished: reuse"
        right = _RIGHT[row]
        ran = [name for name in seen if name != "effect"]
        if whole and tuple(ran) not in right:
            ways = " or ".join(", ".join(way) or "nothing" for way in right)
            happened = ", ".join(ran) or "nothing"
            self.foretold.problems.append(
                f"resume (life {life.number}) of call {call}: '{row}' calls for {ways}; what happened was {happened}"
            )
        elif not whole and not any(tuple(ran) == way[: len(ran)] for way in right):
            self.foretold.problems.append(
                f"resume (life {life.number}) of call {call}: '{row}' does not allow {', '.join(ran)}"
            )


def _as_lost(life: LifeEvidence) -> Iterator[Event]:
    """The events of a life; where power was lost with a name that was not synced yet, its write was never made."""
    kill = life.killed_at
    undone = kill is not None and kill.loss == "!" and kill.label.endswith(_NOT_YET_NAMED)
    last = next((event for event in reversed(life.events) if event["event"] == "at"), None)
    for event in life.events:
        yield {**event, "labels": event["labels"][:-1]} if undone and event is last else event


# What must happen in the world for each row, from the beginning of settling a call to its recorded end.
_RIGHT: dict[str, tuple[tuple[str, ...], ...]] = {
    "finished: reuse": ((),),
    "no such tool": ((),),
    "read-only: run": (("begin", "end"),),
    "not started: run": (("begin", "end"),),
    "idempotent: run again": (("begin", "end"),),
    "verify: done": (("done",),),
    "verify: not done": (("not_done", "begin", "end"),),
    "verify: cannot tell": (("cannot_tell",), ("raises",)),
    "unknown": ((),),
}


def shown_results(messages: list[dict[str, object]]) -> Iterator[tuple[str, str, bool]]:
    """(`tool_use_id`, text, is_error) of every result in a conversation."""
    for message in messages:
        content = message["content"]
        for block in content if isinstance(content, list) else []:
            if block.get("type") == "tool_result":
                inner = block.get("content")
                text = inner if isinstance(inner, str) else "".join(b.get("text", "") for b in inner or [])
                yield block["tool_use_id"], text, block.get("is_error") is True
