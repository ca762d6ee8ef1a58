"""A request, read once for all rules: its blocks by type, its turns as the API merges them, its calls and results.

Every request of every forked child is judged, and rules look at the same few things again and again; this is where
they are found once. Reading never fails: what is not shaped like a request at all is left out here, and the shape
rules (A1, C0) look at the body itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from crashtests.api.signing import Fault, Signer
from crashtests.api.vocabulary import THINKING_TYPES, Body, JsonBlock, entries

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Block(NamedTuple):
    """A content block and where it stands. String content counts as one text block."""

    i: int
    j: int
    role: str
    type: str
    data: JsonBlock

    @property
    def where(self) -> str:
        return f"messages.{self.i}.content.{self.j}"


class Turn(NamedTuple):
    """Neighbouring messages of one role, which the API reads as one ([S] message_create_params docstring).

    `calls` and `results` are its tool_use and tool_result blocks, wherever they may stand.
    """

    role: str
    blocks: list[Block]
    calls: list[Block]
    results: list[Block]

    def of(self, kind: str) -> list[Block]:
        return [block for block in self.blocks if block.type == kind]


class Exchange(NamedTuple):
    """The calls of an assistant turn, and the results in the user turn right behind it, in order."""

    calls: list[Block]
    results: list[Block]
    answer: Turn | None


class Request:
    """What the rules look at. `paused`: the caller knows that the last response stopped with pause_turn.

    `wire` is the body as it is sent; `unsendable` says why it cannot be, in which case `wire` is empty.
    """

    __slots__ = (
        "blocks",
        "body",
        "custom_tools",
        "exchanges",
        "faults",
        "messages",
        "paused",
        "signer",
        "tools",
        "turns",
        "unsendable",
        "wire",
        "wire_bytes",
    )

    def __init__(self, body: Body, *, signer: Signer | None = None, paused: bool = False) -> None:
        self.body = dict(body) if hasattr(body, "keys") else {}
        self.signer = signer
        self.paused = paused
        messages = self.body.get("messages")
        # A message that is no object reads as an empty one, so that the others keep their indices.
        self.messages: list[dict[str, Any]] = (
            [message if isinstance(message, dict) else {} for message in messages] if isinstance(messages, list) else []
        )
        self.tools = entries(self.body.get("tools"))
        self.custom_tools = [(i, tool) for i, tool in enumerate(self.tools) if tool.get("type") in (None, "custom")]
        self.blocks: dict[str, list[Block]] = {}
        self.turns: list[Turn] = []
        self._read_messages()
        self.exchanges = list(self._pair())
        self.wire, self.wire_bytes, self.unsendable = _sent(self.body)
        self.faults: list[Fault] = []
        if signer is not None and not self.unsendable and not self.blocks.keys().isdisjoint(THINKING_TYPES):
            self.faults.extend(signer.faults(self.body))

    def of(self, *kinds: str) -> Iterator[Block]:
        """All blocks of these types, in order within each type."""
        for kind in kinds:
            yield from self.blocks.get(kind, ())

    def mentions(self, word: str) -> bool:
        """Whether the word is anywhere in the body; a quick look that spares most requests a slow one."""
        return word in self.wire

    def _read_messages(self) -> None:
        for i, message in enumerate(self.messages):
            role = message.get("role")
            if not isinstance(role, str):
                continue
            # A system message is never merged: only user and assistant turns are.
            if not self.turns or self.turns[-1].role != role or role == "system":
                self.turns.append(Turn(role, [], [], []))
            content = message.get("content")
            if isinstance(content, str):
                content = [{"type": "text", "text": content}] if content else []
            for j, data in enumerate(content if isinstance(content, list) else ()):
                if isinstance(data, dict):
                    self._add(self.turns[-1], Block(i, j, role, str(data.get("type")), data))

    def _add(self, turn: Turn, block: Block) -> None:
        kind = block.type
        turn.blocks.append(block)
        if kind == "tool_use":
            turn.calls.append(block)
        elif kind == "tool_result":
            turn.results.append(block)
        if kind in self.blocks:
            self.blocks[kind].append(block)
        else:
            self.blocks[kind] = [block]

    def _pair(self) -> Iterator[Exchange]:
        for n, turn in enumerate(self.turns):
            if turn.calls and turn.role == "assistant":
                after = self.turns[n + 1] if n + 1 < len(self.turns) else None
                answer = after if after is not None and after.role == "user" else None
                yield Exchange(turn.calls, answer.results if answer else [], answer)


def _sent(body: Body) -> tuple[str, int, str]:
    """The body as text, its length in bytes, and why it cannot be sent."""
    try:
        wire = _encode(body)
        return wire, len(wire.encode()), ""
    except (ValueError, TypeError, RecursionError) as error:
        return "", 0, f"{type(error).__name__}: {error}"
