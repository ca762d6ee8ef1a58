"""The words of a Messages API request: block types and their keys, roles, stop reasons, what each model
allows.

These lists are copied by hand from the SDK's parameter types (`anthropic.types.*`, 2.14.0) so that judging a
request imports nothing but the standard library; a tripwire test compares them with the installed SDK, and an
upgrade that changes one of them fails there. Only what is generally available is listed: a request that needs
a beta header (message threads, context management, block binding controls) is foreign to this oracle and is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

Body = Mapping[str, Any]
"""A request body as it goes over the wire: what `json.loads` gives for it."""

JsonBlock = Mapping[str, Any]
"""One content block as it goes over the wire; within a request it is a dict."""

ROLES = ("user", "assistant", "system")

STOP_REASONS = (
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
)

TOP_LEVEL_KEYS = frozenset(
    {
        *("model", "max_tokens", "messages", "system", "tools", "tool_choice", "thinking", "stream"),
        *("stop_sequences", "output_config", "metadata", "cache_control", "container", "diagnostics"),
        *("inference_geo", "service_tier", "speed"),
    }
)

SAMPLING_KEYS = ("temperature", "top_p", "top_k")

_SERVER_RESULT_KEYS = frozenset({"type", "tool_use_id", "content", "cache_control"})
_CALLED_SERVER_RESULT_KEYS = _SERVER_RESULT_KEYS | {"caller"}

BLOCK_KEYS: dict[str, frozenset[str]] = {
    "text": frozenset({"type", "text", "cache_control", "citations"}),
    "image": frozenset({"type", "source", "cache_control", "transformations"}),
    "document": frozenset({"type", "source", "cache_control", "citations", "context", "title"}),
    "search_result": frozenset({"type", "content", "source", "title", "cache_control", "citations"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "tool_use": frozenset({"type", "id", "name", "input", "cache_control", "caller", "toolset_name"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"}),
    "server_tool_use": frozenset({"type", "id", "name", "input", "cache_control", "caller"}),
    "web_search_tool_result": _CALLED_SERVER_RESULT_KEYS,
    "web_fetch_tool_result": _CALLED_SERVER_RESULT_KEYS,
    "code_execution_tool_result": _SERVER_RESULT_KEYS,
    "bash_code_execution_tool_result": _SERVER_RESULT_KEYS,
    "text_editor_code_execution_tool_result": _SERVER_RESULT_KEYS,
    "tool_search_tool_result": _SERVER_RESULT_KEYS,
    "container_upload": frozenset({"type", "file_id", "cache_control"}),
}
"""Every block type a message may hold, with every key the type knows."""

NESTED_KEYS: Mapping[str, frozenset[str]] = {
    "text": BLOCK_KEYS["text"],
    "image": BLOCK_KEYS["image"],
    "document": BLOCK_KEYS["document"],
    "search_result": BLOCK_KEYS["search_result"],
    "tool_reference": frozenset({"type", "tool_name", "cache_control"}),
    "browser_state": frozenset({"type", "tabs", "cache_control", "state_changes"}),
}
"""Every block type the content of a `tool_result` may hold, with its keys."""

CUSTOM_TOOL_KEYS = frozenset(
    {
        *("type", "name", "description", "input_schema", "cache_control", "strict", "defer_loading"),
        *("allowed_callers", "eager_input_streaming", "input_examples"),
    }
)

TOOL_CHOICE_KEYS: Mapping[str, frozenset[str]] = {
    "auto": frozenset({"type", "disable_parallel_tool_use"}),
    "any": frozenset({"type", "disable_parallel_tool_use"}),
    "tool": frozenset({"type", "name", "disable_parallel_tool_use"}),
    "none": frozenset({"type"}),
}

THINKING_KEYS: Mapping[str, frozenset[str]] = {
    "adaptive": frozenset({"type", "display"}),
    "between_tools": frozenset({"type"}),
    "disabled": frozenset({"type"}),
    "enabled": frozenset({"type", "budget_tokens", "display"}),
}

THINKING_TYPES = ("thinking", "redacted_thinking")

SERVER_RESULT_TYPES = frozenset(kind for kind in BLOCK_KEYS if kind.endswith("_tool_result"))

ASSISTANT_ONLY_TYPES = SERVER_RESULT_TYPES.union(THINKING_TYPES, ("tool_use", "server_tool_use"))

SERVER_TOOL_OF = {
    "bash_code_execution": "code_execution",
    "text_editor_code_execution": "code_execution",
}
"""The entry of `tools` behind a `server_tool_use` name, where the two differ."""

DEFAULT_MODEL = "claude-opus-5-5"

_MODEL = re.compile(r"claude-([a-z]+)-(\d+)(?:-(\d{1,2}))?(?:-\d{8})?")


def model_line(model: object) -> tuple[str, tuple[int, int]] | None:
    """The family and version of a model name: `claude-opus-5-5` is `("opus", (5, 5))`.

    A name that is not Claude's (`scripted`) counts as the default model. A Claude name without a version
    (`claude-mythos-preview`) gives None: rules that differ by model let it pass.
    """
    name = model if isinstance(model, str) and model.startswith("claude-") else DEFAULT_MODEL
    found = _MODEL.fullmatch(name)
    if found is None:
        return None
    return found[1], (int(found[2]), int(found[3] or 0))


def is_blank(text: object) -> bool:
    """Whether this is a text that holds nothing but white space, as the API counts it."""
    return isinstance(text, str) and not text.strip()


def content_blocks(content: object) -> Iterable[JsonBlock]:
    """The blocks of a message's `content`; a string is short for one text block ([D] api/messages/create).

    What is not a block is left out here; rule C0 reports it.
    """
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    if isinstance(content, list):
        return [block for block in content if isinstance(block, dict)]
    return ()


def entries(value: object) -> list[dict[str, Any]]:
    """The objects in a list such as `tools` or `system`; anything else counts as an empty list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
