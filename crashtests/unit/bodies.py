"""Messages API response bodies, in as few words as the tests need."""

from __future__ import annotations

from typing import Any

Block = dict[str, Any]
Body = dict[str, Any]

USAGE = {"input_tokens": 10, "output_tokens": 5}


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def call(tool_use_id: str, name: str = "act", **arguments: Any) -> Block:
    return {"type": "tool_use", "id": tool_use_id, "name": name, "input": arguments}


def body(stop_reason: Any, *blocks: Any, **fields: Any) -> Body:
    """A response body; every one uses 15 tokens unless `usage` is among the fields."""
    return {"type": "message", "content": list(blocks), "stop_reason": stop_reason, "usage": USAGE} | fields


def asks(*blocks: Block, **fields: Any) -> Body:
    """A turn: the model names tools."""
    return body("tool_use", *blocks, **fields)


def says(words: str, **fields: Any) -> Body:
    """The closing response."""
    return body("end_turn", text(words), **fields)


def result(tool_use_id: str, content: Any, *, is_error: bool = False) -> Block:
    """The block that answers a call."""
    block = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content}
    return block | {"is_error": True} if is_error else block
