"""Rules C: content blocks, by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crashtests.api.examples import (
    assistant,
    cached,
    call,
    request,
    result,
    signed_request,
    text,
    thought,
    user,
)
from crashtests.api.request import Request
from crashtests.api.table import Rule
from crashtests.api.vocabulary import (
    ASSISTANT_ONLY_TYPES,
    BLOCK_KEYS,
    SERVER_RESULT_TYPES,
    THINKING_TYPES,
    entries,
    is_blank,
)

CACHE_MARKERS_MAX = 4
TTLS = ("5m", "1h")

_SERVER_RESULT_FIELDS: Mapping[str, type] = {"tool_use_id": str, "content": object}

# The fields of tool_use and tool_result, and a signature, have rules of their own: D7 to D11, F2.
_FIELDS: Mapping[str, Mapping[str, type]] = {
    "text": {"text": str},
    "thinking": {"thinking": str},
    "redacted_thinking": {"data": str},
    "image": {"source": dict},
    "document": {"source": dict},
    "search_result": {"content": list, "source": str, "title": str},
    "server_tool_use": {"id": str, "name": str, "input": dict},
    "container_upload": {"file_id": str},
    **dict.fromkeys(SERVER_RESULT_TYPES, _SERVER_RESULT_FIELDS),
}


def _shape(request: Request) -> Iterator[str]:
    for i, message in enumerate(request.messages):
        content = message.get("content", "")
        if not isinstance(content, (str, list)):
            yield f"messages.{i}.content: a string or a list of blocks, not {content!r}"
        for j, block in enumerate(content if isinstance(content, list) else ()):
            if not isinstance(block, dict):
                yield f"messages.{i}.content.{j}: a block is an object, not {block!r}"
    for kind in request.blocks.keys() & _FIELDS.keys():
        for block in request.blocks[kind]:
            for name, wanted in _FIELDS[kind].items():
                if name not in block.data or not isinstance(block.data[name], wanted):
                    yield f"{block.where}.{kind}.{name}: {wanted.__name__} required, not {block.data.get(name)!r}"


def _content_not_empty(request: Request) -> Iterator[str]:
    last = len(request.messages) - 1
    for i, message in enumerate(request.messages):
        optional = i == last and message.get("role") == "assistant"
        if not optional and message.get("content") in ("", [], ()):
            yield f"messages.{i}.content: empty; only a final assistant message may be"


def _text_not_empty(request: Request) -> Iterator[str]:
    for block in request.of("text"):
        if block.data.get("text") == "":
            yield f"{block.where}.text: a text block must not be empty"


def _text_not_blank(request: Request) -> Iterator[str]:
    for block in request.of("text"):
        if is_blank(block.data.get("text")) and block.data["text"] != "":
            yield f"{block.where}.text: {block.data['text']!r} holds nothing but white space"


def _results_in_user(request: Request) -> Iterator[str]:
    for block in request.of("tool_result"):
        if block.role != "user":
            yield f"{block.where}: a `tool_result` block stands in a user message only, not in a {block.role} message"


def _assistant_only(request: Request) -> Iterator[str]:
    for kind in ASSISTANT_ONLY_TYPES & request.blocks.keys():
        for block in request.of(kind):
            if block.role != "assistant":
                yield f"{block.where}: a `{kind}` block stands in assistant messages only, not in a {block.role}'s"


def _known_types(request: Request) -> Iterator[str]:
    for kind in request.blocks.keys() - BLOCK_KEYS.keys():
        for block in request.of(kind):
            yield f"{block.where}.type: {block.data.get('type')!r} is not one of {', '.join(BLOCK_KEYS)}"


def _markers(request: Request) -> Iterator[tuple[str, Any]]:
    """Every `cache_control` that is set, in the order of the prompt: tools, system, messages."""
    if not request.mentions("cache_control"):
        return
    for part in ("tools", "system"):
        for i, entry in enumerate(entries(request.body.get(part))):
            if entry.get("cache_control") is not None:
                yield f"{part}.{i}", entry["cache_control"]
    for turn in request.turns:
        for block in turn.blocks:
            content = block.data.get("content") if block.type == "tool_result" else None
            for k, nested in enumerate(entries(content) if content else ()):
                if nested.get("cache_control") is not None:
                    yield f"{block.where}.content.{k}", nested["cache_control"]
            if block.data.get("cache_control") is not None and block.type not in THINKING_TYPES:
                yield block.where, block.data["cache_control"]


def _marker_count(request: Request) -> Iterator[str]:
    automatic = request.body.get("cache_control") is not None
    places = [where for where, _ in _markers(request)] + ["cache_control"] * automatic
    if len(places) > CACHE_MARKERS_MAX:
        yield f"at most {CACHE_MARKERS_MAX} blocks with cache_control, found {len(places)}: {', '.join(places)}"


def _marker_on_empty(request: Request) -> Iterator[str]:
    for block in request.of("text"):
        if block.data.get("text") == "" and block.data.get("cache_control") is not None:
            yield f"{block.where}.text: cache_control cannot be set on an empty text block"


def _marker_on_thinking(request: Request) -> Iterator[str]:
    for block in request.of(*THINKING_TYPES):
        if "cache_control" in block.data:
            yield f"{block.where}.{block.type}.cache_control: cannot be set on thinking"


def _marker_order(request: Request) -> Iterator[str]:
    automatic = request.body.get("cache_control")
    marked = list(_markers(request)) + ([("cache_control", automatic)] if automatic is not None else [])
    shorter = ""
    for where, marker in marked:
        ttl = marker.get("ttl", "5m") if isinstance(marker, dict) and marker.get("type") == "ephemeral" else None
        if ttl not in TTLS:
            yield f"{where}: cache_control is {{'type': 'ephemeral'}} with a ttl of 5m or 1h, not {marker!r}"
        elif ttl == "5m":
            shorter = shorter or where
        elif shorter:
            yield f"{where}: a ttl of 1h cannot come after the 5m of {shorter}"
    if automatic is not None and request.turns and request.turns[-1].blocks:
        last = request.turns[-1].blocks[-1]
        explicit = last.data.get("cache_control")
        if isinstance(explicit, dict) and isinstance(automatic, dict):
            ttls = automatic.get("ttl", "5m"), explicit.get("ttl", "5m")
            if ttls[0] != ttls[1]:
                yield f"cache_control: a ttl of {ttls[0]} for the last block, which has {ttls[1]} itself ({last.where})"


BLOCK_RULES = (
    Rule(
        id="C0",
        says="content is a string or a list of block objects, each with the fields its type needs",
        check=_shape,
        source="[S] required keys of anthropic.types.ContentBlockParam",
        breaks=request(user({"type": "text"})),
        passes=request(user({"type": "text", "text": "hello"})),
    ),
    Rule(
        id="C1",
        says="the content of a message is not empty",
        check=_content_not_empty,
        source="[I] simonw/llm-anthropic#37, microsoft/autogen#6083",
        breaks=request(user("hello"), assistant(), user("go on")),
        passes=request(user("hello"), assistant("."), user("go on")),
    ),
    Rule(
        id="C2",
        says="a text block is not empty, even where the model sent it that way (C4)",
        check=_text_not_empty,
        source="[I] anthropics/claude-code#59812; for C4 [I] anthropics/anthropic-sdk-python#461",
        breaks=request(user("hello"), assistant("", call("t1")), user(result("t1"))),
        passes=request(user("hello"), assistant(call("t1")), user(result("t1"))),
    ),
    Rule(
        id="C3",
        says="a text block holds more than white space",
        check=_text_not_blank,
        source="[I] home-assistant/core#175637",
        breaks=request(user("\n")),
        passes=request(user("\n.")),
    ),
    Rule(
        id="C5",
        says="tool_result stands in user messages only",
        check=_results_in_user,
        source="[P]",
        breaks=request(user("hello"), assistant(result("t1")), user("go on")),
        passes=request(user("hello"), assistant(call("t1")), user(result("t1"))),
    ),
    Rule(
        id="C6",
        says="tool_use, thinking and what server tools say stand in assistant messages only",
        check=_assistant_only,
        source="[R]",
        breaks=request(user(call("t1"))),
        passes=request(user("hello"), assistant(call("t1")), user(result("t1"))),
    ),
    Rule(
        id="C7",
        says="block types are those the API knows",
        check=_known_types,
        source="[P], seen for tool_choice; [S] anthropic.types.ContentBlockParam",
        breaks=request(user({"type": "note", "text": "hello"})),
        passes=request(user({"type": "text", "text": "hello"})),
    ),
    Rule(
        id="C8",
        says="at most 4 cache_control markers in the whole request, the automatic one included",
        check=_marker_count,
        source="[D] build-with-claude/prompt-caching; [P] several",
        breaks=request(user(*[text("hello", **cached())] * 4), **cached()),
        passes=request(user(*[text("hello", **cached())] * 3), **cached()),
    ),
    Rule(
        id="C9",
        says="no cache_control on an empty text block",
        check=_marker_on_empty,
        source="[P] several",
        breaks=request(user(text("", **cached()))),
        passes=request(user(text("hello", **cached()))),
    ),
    Rule(
        id="C10",
        says="no cache_control on thinking",
        check=_marker_on_thinking,
        source="[I] router-for-me/CLIProxyAPI#512; [D]",
        breaks=signed_request(("hello",), (thought() | cached(), call("t1")), (result("t1"),)),
        passes=signed_request(("hello",), (thought(), call("t1") | cached()), (result("t1"),)),
    ),
    Rule(
        id="C11",
        says="cache_control is ephemeral; a ttl of 1h comes before 5m; the automatic one agrees with the last block",
        check=_marker_order,
        source="[D] build-with-claude/prompt-caching",
        breaks=request(user(text("hello", **cached("5m")), text("hello", **cached("1h")))),
        passes=request(user(text("hello", **cached("1h")), text("hello", **cached("5m")))),
    ),
)
