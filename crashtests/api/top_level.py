"""Rules A: the request as a whole.

Not here: A7 (prompt longer than the window) cannot be decided without a tokenizer, and A8 is no rule (input
and `max_tokens` together may exceed the window).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crashtests.api.examples import assistant, call, request, result, text, user, without
from crashtests.api.request import Request
from crashtests.api.table import Rule
from crashtests.api.vocabulary import (
    BLOCK_KEYS,
    CUSTOM_TOOL_KEYS,
    NESTED_KEYS,
    SAMPLING_KEYS,
    THINKING_KEYS,
    THINKING_TYPES,
    TOOL_CHOICE_KEYS,
    TOP_LEVEL_KEYS,
    entries,
)

MESSAGES_MAX = 100_000
BODY_BYTES_MAX = 32 * 1024 * 1024
OUTPUT_TOKENS_MAX = 128_000

_MESSAGE_KEYS = frozenset({"role", "content"})

# Sampling parameters, and cache_control on thinking, are refused by rules of their own (A3, C10).
_BODY_KEYS = TOP_LEVEL_KEYS.union(SAMPLING_KEYS)
_KEYS = BLOCK_KEYS | {kind: BLOCK_KEYS[kind] | {"cache_control"} for kind in THINKING_TYPES}


def _required(request: Request) -> Iterator[str]:
    body = request.body
    model, max_tokens, messages = (body.get(key) for key in ("model", "max_tokens", "messages"))
    if not isinstance(model, str) or not model:
        yield f"model: a non-empty string is required, not {model!r}"
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 0:
        yield f"max_tokens: a whole number from 0 is required, not {max_tokens!r}"
    if not isinstance(messages, list):
        yield f"messages: a list is required, not {messages!r}"
        return
    for i, message in enumerate(messages):
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            yield f"messages.{i}: an object with `role` and `content` is required, not {message!r}"


def _unknown_keys(request: Request) -> Iterator[str]:
    body = request.body
    yield from _extra("", body, _BODY_KEYS)
    for i, message in enumerate(request.messages):
        if not message.keys() <= _MESSAGE_KEYS:
            yield from _extra(f"messages.{i}.", message, _MESSAGE_KEYS)
    for kind in request.blocks.keys() & _KEYS.keys():
        allowed = _KEYS[kind]
        for block in request.blocks[kind]:
            if not block.data.keys() <= allowed:
                yield from _extra(f"{block.where}.{kind}.", block.data, allowed)
            if kind == "tool_result" and isinstance(block.data.get("content"), list):
                yield from _extra_nested(block.where, block.data)
    for i, tool in request.custom_tools:
        if not tool.keys() <= CUSTOM_TOOL_KEYS:
            yield from _extra(f"tools.{i}.custom.", tool, CUSTOM_TOOL_KEYS)
    for i, entry in enumerate(entries(body.get("system"))):
        yield from _extra(f"system.{i}.", entry, BLOCK_KEYS["text"])
    yield from _extra_by_type("tool_choice", body.get("tool_choice"), TOOL_CHOICE_KEYS)
    yield from _extra_by_type("thinking", body.get("thinking"), THINKING_KEYS)


def _extra(where: str, given: Mapping[str, Any], allowed: frozenset[str] | set[str]) -> Iterator[str]:
    for key in given:
        if key not in allowed:
            yield f"{where}{key}: extra inputs are not permitted; allowed are {', '.join(sorted(allowed))}"


def _extra_nested(where: str, result: Mapping[str, Any]) -> Iterator[str]:
    for k, nested in enumerate(entries(result.get("content"))):
        yield from _extra_by_type(f"{where}.tool_result.content.{k}", nested, NESTED_KEYS)


def _extra_by_type(where: str, given: object, allowed: Mapping[str, frozenset[str]]) -> Iterator[str]:
    if isinstance(given, dict) and str(given.get("type")) in allowed:
        yield from _extra(f"{where}.", given, allowed[str(given.get("type"))])


def _sampling(request: Request) -> Iterator[str]:
    for key in SAMPLING_KEYS:
        if key in request.body:
            yield f"{key}: {request.body[key]!r} is refused, sampling parameters are gone, even at their default"


def _output_cap(request: Request) -> Iterator[str]:
    max_tokens = request.body.get("max_tokens")
    if isinstance(max_tokens, int) and max_tokens > OUTPUT_TOKENS_MAX:
        yield f"max_tokens: {max_tokens} > {OUTPUT_TOKENS_MAX}, the most that can be asked for"


def _pre_warm(request: Request) -> Iterator[str]:
    body = request.body
    if body.get("max_tokens") != 0:
        return
    if body.get("stream") is True:
        yield "max_tokens: 0 only fills the prompt cache and cannot be combined with stream: True"
    for key, inner, refused in (
        ("thinking", "type", ("enabled",)),
        ("tool_choice", "type", ("any", "tool")),
    ):
        value = body.get(key)
        if isinstance(value, dict) and value.get(inner) in refused:
            yield f"max_tokens: 0 only fills the prompt cache and cannot be combined with {key} {value[inner]!r}"
    config = body.get("output_config")
    if isinstance(config, dict) and config.get("format") is not None:
        yield "max_tokens: 0 only fills the prompt cache and cannot be combined with output_config.format"


def _too_many_messages(request: Request) -> Iterator[str]:
    if len(request.messages) > MESSAGES_MAX:
        yield f"messages: {len(request.messages)} messages, at most {MESSAGES_MAX} are allowed"


def _too_large(request: Request) -> Iterator[str]:
    if request.wire_bytes > BODY_BYTES_MAX:
        yield f"the body is {request.wire_bytes} bytes long, at most {BODY_BYTES_MAX} are allowed"


def _unsendable(request: Request) -> Iterator[str]:
    if request.unsendable:
        yield f"the body cannot be sent as JSON in UTF-8: {request.unsendable}"


TOP_LEVEL = (
    Rule(
        id="A1",
        says="model, max_tokens and messages are required, and every message has a role and content",
        check=_required,
        source="[R] and, for the shape of such errors, [P]",
        breaks=without(request(), "max_tokens"),
        passes=request(),
    ),
    Rule(
        id="A2",
        says="keys that the (generally available) API does not know are refused, anywhere",
        check=_unknown_keys,
        source="[I] anthropics/claude-code#4378, anthropics/claude-code#31033, amrit110/oli#7",
        breaks=request(user(text("hello", id="text-1"))),
        passes=request(user(text("hello"))),
    ),
    Rule(
        id="A3",
        says="no sampling parameters, not even at their default values (API version 2026-10-21)",
        check=_sampling,
        source="[D] api/migration-2026-10-21",
        breaks=request(temperature=1),
        passes=request(),
    ),
    Rule(
        id="A4",
        says="max_tokens is at most what the model can put out",
        check=_output_cap,
        source="[P] several, for claude-opus-5; smaller caps of other models are not known here",
        breaks=request(max_tokens=OUTPUT_TOKENS_MAX + 1),
        passes=request(max_tokens=OUTPUT_TOKENS_MAX),
    ),
    Rule(
        id="A5",
        says="max_tokens: 0 fills the prompt cache and goes with nothing that needs an answer",
        check=_pre_warm,
        source="[D] build-with-claude/prompt-caching",
        breaks=request(max_tokens=0, stream=True),
        passes=request(max_tokens=0),
    ),
    Rule(
        id="A6",
        says="at most 100,000 messages",
        check=_too_many_messages,
        source="[S] message_create_params docstring",
        breaks=request() | {"messages": [user("hello")] * (MESSAGES_MAX + 1)},
        passes=request(user("hello"), user("hello")),
    ),
    Rule(
        id="A6b",
        says="the body is at most 32 MB long",
        check=_too_large,
        source="[D] api/errors",
        breaks=request(*[user("a" * (BODY_BYTES_MAX // 32))] * 32),
        passes=request(*[user("a" * (BODY_BYTES_MAX // 33))] * 32),
        status=413,
        error_type="request_too_large",
    ),
    Rule(
        id="A9",
        says="the body is JSON in UTF-8: no NaN, no Infinity, no lone surrogate, no bytes (the SDK raises first)",
        check=_unsendable,
        source="measured",
        breaks=request(user("hello"), assistant(call("t1")), user(result("t1", "a\ud800b"))),
        passes=request(user("hello"), assistant(call("t1")), user(result("t1", "ab"))),
    ),
)
