"""What a call came to: from whatever a tool returned or raised to what the model will see.

An outcome is fixed once, before it is recorded, so the ledger holds exactly what the model is told. Nothing here can
fail: a tool that had its effect must get its outcome recorded whatever it returned. What the API or the SDK would
refuse is put into words: an empty result (D13, D14), a lone surrogate or a NaN (A9), an image in an error (D12).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

NO_OUTPUT = "(no output)"

# Content blocks a tool_result may hold (D11; docs: api/messages/create), each with the key that makes it one.
_RESULT_BLOCKS = {"text": "text", "image": "source", "document": "source", "search_result": "source"}

Content = str | list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the model sees of a call: a non-empty text, or a list of content blocks, and whether it is an error."""

    content: Content
    is_error: bool = False


def returned(output: Any, *, is_error: bool = False) -> Outcome:
    """The outcome of a tool that returned `output`."""
    if not is_error and (blocks := _as_blocks(output)) is not None:
        return Outcome(blocks)
    return Outcome(_text(output), is_error)


def raised(error: Exception) -> Outcome:
    """The outcome of a tool that raised: never empty, since the class name is always there."""
    try:
        message = str(error)
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
    for block in output:
        key = _RESULT_BLOCKS.get(block.get("type", "")) if _is_plain_dict(block) else None
        if key is None or key not in block:
            return None
        if key == "text" and not (isinstance(block["text"], str) and block["text"].strip()):
            return None
    try:
        text = json.dumps(output, allow_nan=False, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError):
        return None
    blocks: list[dict[str, Any]] = json.loads(text)
    return blocks


def _is_plain_dict(block: Any) -> bool:
    return isinstance(block, dict) and isinstance(block.get("type"), str)


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
        return _clean(_safe_repr(output))


def _safe_repr(output: Any) -> str:
    try:
        return repr(output)
    except Exception:
        return f"(a {type(output).__name__} that cannot be shown)"


def _clean(text: str) -> str:
    """`text` as the wire can carry it: lone surrogates spelled out, and never blank."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if text.strip() else NO_OUTPUT
