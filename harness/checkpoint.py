"""The checkpoint: the whole scene of a run, as it stands on disk between two requests.

A checkpoint is complete in itself: task, request prefix, every message, the calls that still need an outcome, the
counters. Blocks are the raw JSON that came from the API and go back value for value. This module owns the shape, the
encoding to and from JSON values, and the check that a scene read back makes sense; stores own files and bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from harness.tool import Effect

VERSION = 1

Message = dict[str, Any]
Block = dict[str, Any]
Status = Literal["running", "done", "stopped", "refusal"]
STATUSES: tuple[Status, ...] = ("running", "done", "stopped", "refusal")


class BadScene(ValueError):
    """The value is not a checkpoint, or one that this harness cannot have written. Stores add file and remedy."""


@dataclass(frozen=True, slots=True)
class Call:
    """A `tool_use` that has no result in the messages yet.

    `effect` is the class of its tool when the model made the call, None if no such tool existed then. `input` is the
    raw input, found in the assistant turn.
    """

    tool_use_id: str
    name: str
    effect: Effect | None
    input: dict[str, Any]


@dataclass(slots=True)
class Checkpoint:
    """The scene. `messages` and `pending` together say where the run stands.

    `prefix`: `model`, `tools` and, if there is one, `system`, exactly as sent. `turns`: turns begun. `tokens_used`:
    all tokens of the responses in `messages`. `status`: "stopped" and "refusal" hold the response that was not taken
    in `stopped`, {"why": str, "response": the raw response}, and only the first is asked again by a resume.
    """

    run_id: str
    task: str
    prefix: dict[str, Any]
    started_marks: bool
    turns_max: int
    turns: int = 0
    tokens_used: int = 0
    status: Status = "running"
    answer: str | None = None
    stopped: dict[str, Any] | None = None
    pending: list[Call] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    def head(self) -> dict[str, Any]:
        """Everything but the messages, as JSON values."""
        head = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "messages"}
        head["pending"] = [{"tool_use_id": c.tool_use_id, "name": c.name, "effect": c.effect} for c in self.pending]
        return head


def tool_uses(message: Message) -> list[Block]:
    """The client `tool_use` blocks of a message, in order. Server tool blocks are not ours to answer."""
    content = message["content"]
    return [] if isinstance(content, str) else [b for b in content if b.get("type") == "tool_use"]


def all_tool_uses(messages: list[Message]) -> Iterator[Block]:
    """Every client `tool_use` of the conversation, in order."""
    return (b for m in messages if m["role"] == "assistant" for b in tool_uses(m))


def decode(head: Any, messages: Any) -> Checkpoint:
    """A checkpoint from the JSON values of its head and its messages.

    Raises `BadScene` if a field is missing, unknown or of the wrong type, or if the scene contradicts itself.
    """
    if not isinstance(head, dict) or not isinstance(messages, list):
        raise BadScene("not a checkpoint")
    for name, kind in _HEAD_TYPES.items():
        # bool is an int to Python, not to a reader of the file
        if not isinstance(head.get(name, ...), kind) or (kind is int and isinstance(head[name], bool)):
            raise BadScene(f"field {name!r} is {head.get(name, 'missing')!r}")
    if unknown := head.keys() - _HEAD_TYPES.keys():
        raise BadScene(f"unknown field {min(unknown)!r}")
    if head["status"] not in STATUSES:
        raise BadScene(f"status {head['status']!r} is none of {', '.join(STATUSES)}")
    _check_pairing(messages)
    checkpoint = Checkpoint(**(head | {"pending": _decode_pending(head["pending"], messages)}), messages=messages)
    if checkpoint.turns != sum(bool(tool_uses(m)) for m in messages if m["role"] == "assistant"):
        raise BadScene(f"turns is {checkpoint.turns}, which is not what the messages hold")
    return checkpoint


_HEAD_TYPES: dict[str, Any] = {
    "run_id": str,
    "task": str,
    "prefix": dict,
    "started_marks": bool,
    "turns_max": int,
    "turns": int,
    "tokens_used": int,
    "status": str,
    "answer": str | None,
    "stopped": dict | None,
    "pending": list,
}


def _decode_pending(pending: list[Any], messages: list[Message]) -> list[Call]:
    """Pending calls joined with their blocks; none, or exactly the calls of the last message."""
    blocks = tool_uses(messages[-1]) if messages[-1]["role"] == "assistant" else []
    if len(pending) != len(blocks):
        raise BadScene(f"{len(pending)} calls are pending, but the last message makes {len(blocks)}")
    calls = []
    for item, block in zip(pending, blocks, strict=True):
        if not isinstance(item, dict) or item.keys() != {"tool_use_id", "name", "effect"}:
            raise BadScene(f"pending call {item!r} is not one")
        if (item["tool_use_id"], item["name"]) != (block["id"], block["name"]):
            raise BadScene(f"pending call {item['tool_use_id']!r} is not the last message's {block['id']!r}")
        if item["effect"] is not None and item["effect"] not in list(Effect):
            raise BadScene(f"pending call {item['tool_use_id']!r} has effect class {item['effect']!r}")
        effect = None if item["effect"] is None else Effect(item["effect"])
        calls.append(Call(block["id"], block["name"], effect, block["input"]))
    return calls


def _check_pairing(messages: list[Any]) -> None:
    """Every call of every turn but the last is answered in the very next message, in order and once (rule D1)."""
    if not messages or not all(_is_message(m) for m in messages) or messages[0]["role"] != "user":
        raise BadScene("messages is not a conversation that a user begins")
    asked: list[str] = []
    seen: set[str] = set()
    for message in messages:
        content = message["content"] if isinstance(message["content"], list) else []
        answered = [b.get("tool_use_id") for b in content if b.get("type") == "tool_result"]
        if answered != asked:
            raise BadScene(f"calls {asked} are answered by {answered}")
        asked = [b["id"] for b in tool_uses(message)] if message["role"] == "assistant" else []
        if len(set(asked)) != len(asked) or seen.intersection(asked):
            raise BadScene(f"a tool_use_id of {asked} was used before")
        seen.update(asked)


def _is_message(message: Any) -> bool:
    known = isinstance(message, dict) and message.get("role") in ("user", "assistant")
    content = message.get("content") if known else None
    return isinstance(content, str) or (
        isinstance(content, list)
        and all(isinstance(b, dict) for b in content)
        and all(call_problem(b) is None for b in content if b.get("type") == "tool_use")
    )


# What the API takes back as tool_use.id and tool_use.name (rules D7, D9; E2 for the longer length of a name).
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def call_problem(block: Block) -> str | None:
    """What makes a `tool_use` block one that the API would not take back, or None."""
    for key, pattern in (("id", _ID), ("name", _NAME)):
        value = block.get(key)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            return f"tool_use {key} {value!r} does not match {pattern.pattern}"
    if not isinstance(block.get("input"), dict):
        return f"the input of tool_use {block['id']!r} is {block.get('input')!r}, not an object"
    return None
