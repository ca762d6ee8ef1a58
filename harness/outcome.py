"""What a call came to: from whatever a tool returned or raised to what the model will see.

An outcome is fixed once, before it is recorded, so the ledger holds exactly what the model is told. Nothing here can
fail: a tool that had its effect must get its outcome recorded whatever it returned. What the API or the SDK would
refuse is put into words: an empty result (D13, D14), a lone surrogate or a NaN (A9), an image in an error (D12).
"""

from __future__ import annotations

import json
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from typing import Any

from harness.wire import wire_json

NO_OUTPUT = "(no output)"

# Content blocks a tool_result may hold (D11; docs: api/messages/create): the keys each needs, and those it may have
# besides (A2). Anything else only resembles a block, and one bad block would have every later request refused.
RESULT_BLOCKS: dict[str, tuple[dict[str, type], frozenset[str]]] = {
    "text": ({"text": str}, frozenset({"cache_control"})),
    "image": ({"source": dict}, frozenset({"cache_control", "transformations"})),
    "document": ({"source": dict}, frozenset({"cache_control", "citations", "context", "title"})),
    "search_result": ({"source": str, "title": str, "content": list}, frozenset({"cache_control", "citations"})),
}

Content = str | list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the model sees of a call: a non-empty text, or a list of content blocks, and whether it is an error."""

    content: Content
    is_error: bool = False


def returned(output: Any, *, is_error: bool = False) -> Outcome:
    """The outcome of a tool that returned `output`.

    A coroutine or a generator is an error: nothing of the function has run, and nobody is going to run it.
    """
    if isinstance(output, Coroutine | Generator):
        output.close()
        kind = "coroutine" if isinstance(output, Coroutine) else "generator"
        return Outcome(f"the tool returned a {kind}, so it has not run: a tool is a plain function", is_error=True)
    try:
        if not is_error and (blocks := _as_blocks(output)) is not None:
            return Outcome(blocks)
        return Outcome(_text(output), is_error)
    except Exception:  # a value whose own methods raise
        return Outcome(f"(a {type(output).__name__} that cannot be shown)", is_error)


def raised(error: Exception) -> Outcome:
    """The outcome of a tool that raised: never empty, since the class name is always there."""
    try:
        message = str.__str__(str(error))
    except Exception:
        message = "(its message could not be made)"
    name = type(error).__name__
    return Outcome(_clean(f"{name}: {message}" if message.strip() else name), is_error=True)


def tool_result(tool_use_id: str, outcome: Outcome) -> dict[str, Any]:
    """The `tool_result` block that answers `tool_use_id`."""
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": tool_use_id, "content": outcome.content}
    return block | {"is_error": True} if outcome.is_error else block


def _as_blocks(output: Any) -> list[dict[str, Any]] | None:
    """`output` as content blocks if it is a list of nothing else and JSON can hold it, else None."""
    if not isinstance(output, list) or not output:
        return None
    if not all(_is_block(block) for block in output) or (text := wire_json(output)) is None:
        return None
    blocks: list[dict[str, Any]] = json.loads(text)
    return blocks


def _is_block(block: Any) -> bool:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str) or block["type"] not in RESULT_BLOCKS:
        return False
    needed, allowed = RESULT_BLOCKS[block["type"]]
    if not all(isinstance(block.get(key), kind) for key, kind in needed.items()):
        return False
    if not block.keys() - needed.keys() <= allowed | {"type"}:
        return False
    if block["type"] == "search_result":
        return all(_is_block(inner) and inner["type"] == "text" for inner in block["content"])
    return block["type"] != "text" or bool(block["text"].strip())


def _text(output: Any) -> str:
    if output is None:
        return NO_OUTPUT
    if isinstance(output, str):
        return _clean(str.__str__(output))
    if isinstance(output, (bytes, bytearray, memoryview)):
        return _clean(bytes(output).decode("utf-8", "backslashreplace"))
    try:
        return _clean(json.dumps(output, ensure_ascii=False, default=repr))
    except Exception:  # circular, too deep, or a key or repr of the tool's own that raises
        return _clean(str.__str__(repr(output)))


def _clean(text: str) -> str:
    """`text` as the wire can carry it: lone surrogates spelled out, and never blank."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if text.strip() else NO_OUTPUT
