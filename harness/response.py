"""Reading a response: what may be saved of it, what it cost, and whether it can be taken at all.

Blocks are kept as the raw JSON that came. The one exception are empty or blank text blocks, which the API emits but
does not take back (rules C2 to C4): they are left out, always in the same way, before anything is saved.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from harness.checkpoint import Block, call_problem
from harness.stop_reasons import STOP_REASONS, Move
from harness.wire import NESTING_MAX, is_shallow, wire_json

_TOKEN_KEYS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@dataclass(frozen=True, slots=True)
class Reading:
    """A response as the loop sees it. `why` says, for the moves that stop, what was wrong."""

    move: Move
    content: list[Block]
    calls: list[Block]
    tokens: int
    why: str = ""

    @property
    def answer(self) -> str:
        return "".join(b["text"] for b in self.content if b.get("type") == "text" and isinstance(b.get("text"), str))


def read_response(response: Any, seen_ids: Set[str]) -> Reading:
    """Decide what a raw response is. `seen_ids`: every `tool_use_id` of the conversation so far.

    Never raises: what breaks the protocol is a `Move.STOP` that says why.
    """
    if problem := _body_problem(response):
        return _stop(f"protocol error: {problem}")
    stop_reason = response["stop_reason"]
    move = STOP_REASONS.get(stop_reason, Move.STOP)
    if move is Move.REFUSAL:
        details = response.get("stop_details")
        category = details.get("category") if isinstance(details, dict) else None
        return Reading(move, [], [], 0, f"the model refused (category {category!r})")
    if move is Move.STOP:
        known = "the response was cut short" if stop_reason in STOP_REASONS else "unknown stop reason"
        return _stop(f"{known}: stop_reason {stop_reason!r}")
    content = [b for b in response["content"] if not _is_blank_text(b)]
    calls = [b for b in content if b["type"] == "tool_use"]
    if problem := _calls_problem(calls, stop_reason, seen_ids):
        return _stop(f"protocol error: {problem}")
    if move is Move.SEND_BACK and not content:
        return _stop("protocol error: a paused turn without content cannot be sent back (rule C1)")
    return Reading(move, content, calls, _tokens(response.get("usage")))


def keepable(response: Any) -> Any:
    """`response` if JSON can hold it and the wire could carry it, else its text: what is kept beside the messages."""
    if wire_json(response) is not None:
        return response
    try:
        return ascii(response)
    except Exception:  # nested too deep, or an integer too long
        return f"(a {type(response).__name__} that cannot be shown)"


def _stop(why: str) -> Reading:
    return Reading(Move.STOP, [], [], 0, why)


def _body_problem(response: Any) -> str | None:
    if not isinstance(response, dict):
        return f"the response is a {type(response).__name__}, not an object"
    if not is_shallow(response):
        return f"the response is nested more than {NESTING_MAX} deep"
    if not isinstance(response.get("stop_reason"), str):
        return f"stop_reason is {response.get('stop_reason')!r}: the response never ended"
    content = response.get("content")
    if not isinstance(content, list):
        return f"content is {content!r}, not a list"
    for block in content:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            return f"content block {block!r} has no type"
        if block["type"] == "tool_result":
            return "the model's turn holds a tool_result, which only the answer to it may (rule C5)"
        if block["type"] == "text" and not isinstance(block.get("text"), str):
            return f"the text of content block {block!r} is none"
    if wire_json(content) is None:
        return "the content holds a NaN or a lone surrogate, which cannot be sent back (rule A9)"
    return None


def _calls_problem(calls: list[Block], stop_reason: str, seen_ids: Set[str]) -> str | None:
    if bool(calls) != (stop_reason == "tool_use"):
        return f"stop_reason is {stop_reason!r} and the turn makes {len(calls)} calls"
    ids = [b.get("id") for b in calls]
    for block in calls:
        if problem := call_problem(block):
            return problem
        if ids.count(block["id"]) > 1:
            return f"tool_use_id {block['id']!r} is there twice"
        if block["id"] in seen_ids:
            return f"tool_use_id {block['id']!r} was used by an earlier turn"
    return None


def _is_blank_text(block: Block) -> bool:
    return block["type"] == "text" and isinstance(block.get("text"), str) and not block["text"].strip()


def _tokens(usage: Any) -> int:
    counts = [usage.get(key) for key in _TOKEN_KEYS] if isinstance(usage, dict) else []
    return sum(n for n in counts if isinstance(n, int) and not isinstance(n, bool))
