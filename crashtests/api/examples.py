"""Small pieces to write the example requests of the rule table with. Each call gives fresh objects."""

from __future__ import annotations

from typing import Any

from crashtests.api.signing import Signer
from crashtests.api.vocabulary import DEFAULT_MODEL

Json = dict[str, Any]

SIGNER = Signer()
"""The signer that the examples of the thinking rules are signed with."""

MANUAL_MODEL = "claude-sonnet-4-5"
"""A model from before adaptive thinking, for the rules that only bind such models."""

IMAGE: Json = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
}


def user(*blocks: Json | str) -> Json:
    return {"role": "user", "content": [_block(block) for block in blocks]}


def assistant(*blocks: Json | str) -> Json:
    return {"role": "assistant", "content": [_block(block) for block in blocks]}


def system(text: str) -> Json:
    return {"role": "system", "content": text}


def text(words: str, **extra: Any) -> Json:
    return {"type": "text", "text": words, **extra}


def call(call_id: str, name: str = "look", **extra: Any) -> Json:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}, **extra}


def result(call_id: str, content: Any = "seen", **extra: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **extra}


def search(call_id: str) -> Json:
    return {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {"query": "weather"}}


def found(call_id: str) -> Json:
    return {"type": "web_search_tool_result", "tool_use_id": call_id, "content": []}


def thought(words: str = "hm") -> Json:
    return {"type": "thinking", "thinking": words, "signature": "unverified"}


def tool(name: str = "look", **extra: Any) -> Json:
    return {
        "name": name,
        "description": "Looks.",
        "input_schema": {"type": "object", "properties": {}},
        **extra,
    }


def web_search() -> Json:
    return {"type": "web_search_20260318", "name": "web_search"}


def cached(ttl: str = "5m") -> Json:
    return {"cache_control": {"type": "ephemeral", "ttl": ttl}}


def request(*messages: Json, **top_level: Any) -> Json:
    """A request with these messages; `messages` defaults to one plain question, `tools` to one tool."""
    body = {
        "model": DEFAULT_MODEL,
        "max_tokens": 1024,
        "tools": [tool()],
        "messages": list(messages) or [user("hello")],
    }
    return {**body, **top_level}


def without(body: Json, *keys: str) -> Json:
    return {key: value for key, value in body.items() if key not in keys}


def signed_request(*contents: tuple[Json | str, ...], **top_level: Any) -> Json:
    """A conversation that was really held: every second content is an assistant's, signed over all before it."""
    body = request(**top_level) | {"messages": []}
    for n, content in enumerate(contents):
        if n % 2:
            blocks = SIGNER.signed(body, [_block(block) for block in content])
            body["messages"].append({"role": "assistant", "content": blocks})
        else:
            body["messages"].append(user(*content))
    return body


def _block(block: Json | str) -> Json:
    return text(block) if isinstance(block, str) else block
