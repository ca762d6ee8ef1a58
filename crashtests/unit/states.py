"""States of a run, as its stores hold them: made by hand, saved by a store, and looked at byte by byte.

The sample is a run at point A of its second turn: one call of each kind that the ledger can tell apart (finished,
started, not begun), blocks that must pass untouched, and values that a careless encoder loses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crashtests.unit.bodies import call, result, text
from harness import Effect, Store, ledger
from harness.checkpoint import Call, Checkpoint
from harness.ledger import Entry, Ledger, Settled
from harness.outcome import Outcome

Message = dict[str, Any]

TASK = "Räume auf 🧹"

THINKING = {"type": "thinking", "thinking": "", "signature": "EqQB/+=="}
REDACTED = {"type": "redacted_thinking", "data": "\u2028\u0000"}
UNHEARD_OF = {"type": "a_block_of_2031", "big": 2**200, "tiny": 5e-324, "whole": 1.0, "minus": -0.0, "null": None}

FIRST_TURN: list[Message] = [
    {"role": "assistant", "content": [THINKING, text("I will."), call("t1", path="a", force=False)]},
    {"role": "user", "content": [result("t1", "0", is_error=True)]},
]
SECOND_TURN: Message = {
    "role": "assistant",
    "content": [REDACTED, UNHEARD_OF, call("t2", n=0), call("t3", n=1.0), call("t4", none=None)],
}


def begun(run_id: str = "run-1", **fields: Any) -> Checkpoint:
    """The scene before the first request."""
    tool = {"name": "act", "description": "Acts.", "input_schema": {"type": "object"}}
    given: dict[str, Any] = {
        "task": TASK,
        "prefix": {"model": "scripted", "system": "Be brief.", "tools": [tool]},
        "started_marks": True,
        "turns_max": 50,
        "messages": [{"role": "user", "content": TASK}],
    }
    return Checkpoint(run_id, **(given | fields))


def calls_of(message: Message, effect: Effect | None = Effect.SIDE_EFFECT) -> list[Call]:
    """The calls that an assistant turn makes."""
    blocks = [b for b in message["content"] if b["type"] == "tool_use"]
    return [Call(b["id"], b["name"], effect, b["input"]) for b in blocks]


def save_turn(store: Store, scene: Checkpoint, turn: Message) -> None:
    """Point A of `turn`."""
    scene.messages.append(turn)
    scene.pending = calls_of(turn)
    scene.turns += bool(scene.pending)
    store.save(scene, "save-a")


def save_answer(store: Store, scene: Checkpoint, answer: Message) -> None:
    """Point B of the turn that is pending."""
    scene.messages.append(answer)
    scene.pending = []
    store.save(scene, "save-b")


def record(store: Store, known: Ledger, entry: Entry) -> None:
    known.put(entry)
    store.record(known, entry, "effect" if entry.finished else "started")


def save_sample(store: Store) -> tuple[Checkpoint, Ledger]:
    """Write the sample with `store`, which must be owned."""
    scene = begun()
    known = Ledger(scene.run_id)
    store.start(scene)
    for turn in (FIRST_TURN[0], SECOND_TURN):
        save_turn(store, scene, turn)
        first, *others = scene.pending
        record(store, known, ledger.started(first))
        record(store, known, ledger.finished(first, Outcome("0", is_error=turn is FIRST_TURN[0]), Settled.RUN))
        if not others:
            save_answer(store, scene, FIRST_TURN[1])
    record(store, known, ledger.started(scene.pending[1]))
    return scene, known


def sample(store: Store) -> tuple[Checkpoint, Ledger]:
    """Write the sample and let go of it, as a life that ended."""
    with store.owned(create=True):
        return save_sample(store)


def as_json(scene: Checkpoint, known: Ledger) -> str:
    """All that a store has to keep, as text: equal texts are equal values, key order and 1 or 1.0 included."""
    entries = {key: entry.to_json() for key, entry in known.entries.items()}
    return json.dumps([scene.head(), [c.input for c in scene.pending], scene.messages, known.run_id, entries], indent=1)


Files = dict[str, tuple[bytes, int, int]]


def files_in(directory: Path) -> Files:
    """Every file and directory below: name -> (content, mtime in ns, mode)."""
    found = {}
    for path in sorted(directory.rglob("*")):
        stat = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(directory))] = (content, stat.st_mtime_ns, stat.st_mode)
    return found


@contextmanager
def nothing_changes(directory: Path) -> Iterator[None]:
    """Byte for byte, time for time: what is below `directory` must be the same afterwards."""
    before = files_in(directory)
    yield
    assert before == files_in(directory)
