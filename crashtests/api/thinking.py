"""Rules F: thinking is configured as the model allows, and comes back as it was.

Whether a block is genuine, and whether it stands where it was made, is known to the signer (`signing.py`);
without one only the presence of a signature is checked.

What F1 can see. The latest assistant turn must bring back its thinking complete and in order, but from the
request alone the missing of *all* of it cannot be told from a response that never had any. As soon as one
block of a response is there, its signature says how many there were. (For older turns losing blocks at the
start, at the end or altogether is no edit: F3.)

Not here: F4 is no rule, a block that another model signed is dropped without an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crashtests.api.examples import (
    MANUAL_MODEL,
    Json,
    assistant,
    call,
    request,
    result,
    signed_request,
    thought,
    user,
)
from crashtests.api.request import Request
from crashtests.api.signing import Signature
from crashtests.api.table import Rule
from crashtests.api.vocabulary import THINKING_KEYS, THINKING_TYPES, model_line

BUDGET_TOKENS_MIN = 1024
MANUAL_REFUSED_SINCE = (4, 7)
ADAPTIVE_SINCE = (4, 6)


def _complete(request: Request) -> Iterator[str]:
    latest = next((turn for turn in reversed(request.turns) if turn.role == "assistant"), None)
    if request.signer is None or latest is None:
        return
    places = []
    for block in latest.blocks:
        if block.type in THINKING_TYPES:
            signature = Signature.of(block.data)
            if signature is None:
                return  # F2
            if signature.model == str(request.body.get("model")):
                places.append(signature.place)
    if not _is_whole(places):
        yield (
            f"messages.{latest.blocks[0].i}: the latest assistant message brings back its thinking blocks as {places};"
            " they must be complete and in order"
        )


def _is_whole(places: list[str]) -> bool:
    """Whether places such as `1/2`, `2/2` are whole responses, one behind the other (the earlier ones were paused)."""
    due = 1
    for place in places:
        k, _, n = place.partition("/")
        if k != str(due):
            return False
        due = 1 if k == n else due + 1
    return due == 1


def _signed(request: Request) -> Iterator[str]:
    for block in request.of("thinking"):
        signature = block.data.get("signature")
        if not isinstance(signature, str) or not signature:
            yield f"{block.where}.thinking.signature: required, not {signature!r}"
    yield from (fault.says for fault in request.faults if fault.invalid)


def _bound(request: Request) -> Iterator[str]:
    yield from (fault.says for fault in request.faults if not fault.invalid)


def _manual(request: Request) -> Mapping[str, Any] | None:
    thinking = request.body.get("thinking")
    return thinking if isinstance(thinking, dict) and thinking.get("type") == "enabled" else None


def _thinks_before_calling(request: Request) -> Iterator[str]:
    """Bound to the last exchange: older turns, and a turn that called nothing, may have lost their thinking."""
    exchange = request.exchanges[-1] if request.exchanges and _manual(request) else None
    if exchange is None or not exchange.results or exchange.answer is not request.turns[-1]:
        return
    first = request.turns[-2].blocks[0]
    if first.type not in THINKING_TYPES:
        yield f"{first.where}.type: with manual thinking the final assistant turn starts with it, not `{first.type}`"


def _configured(request: Request) -> Iterator[str]:
    thinking = request.body.get("thinking")
    if "thinking" not in request.body:
        return
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind not in tuple(THINKING_KEYS):
        yield f"thinking: an object whose type is one of {', '.join(THINKING_KEYS)}, not {thinking!r}"
        return
    if manual := _manual(request):
        budget, max_tokens = manual.get("budget_tokens"), request.body.get("max_tokens")
        if not isinstance(budget, int) or budget < BUDGET_TOKENS_MIN:
            yield f"thinking.budget_tokens: a whole number from {BUDGET_TOKENS_MIN}, not {budget!r}"
        elif isinstance(max_tokens, int) and budget >= max_tokens:
            yield f"thinking.budget_tokens: {budget} is not less than max_tokens, which is {max_tokens}"
    model = request.body.get("model")
    family, version = model_line(model) or ("", (0, 0))
    always_on = (family, version) == ("opus", (5, 5)) or (family == "fable" and version >= (5, 0))
    refused = {
        "enabled": version >= MANUAL_REFUSED_SINCE,
        "disabled": always_on,
        "adaptive": bool(family) and version < ADAPTIVE_SINCE,
    }
    if refused.get(str(kind)):
        yield f"thinking.type: {kind!r} is not supported by {model!r}"


_HELD = ("hello",), (thought("a"), call("t1"), thought("b"), call("t2")), (result("t1"), result("t2"))
_MANUAL = {"type": "enabled", "budget_tokens": 1024}


def _edited(body: Json, i: int, j: int, **fields: Any) -> Json:
    """The request with other values in one block; everything else is shared with the original."""
    messages = list(body["messages"])
    content = list(messages[i]["content"])
    content[j] = {**content[j], **fields}
    messages[i] = {**messages[i], "content": content}
    return {**body, "messages": messages}


def _unthought(body: Json, i: int, j: int) -> Json:
    messages = list(body["messages"])
    messages[i] = {**messages[i], "content": [b for k, b in enumerate(messages[i]["content"]) if k != j]}
    return {**body, "messages": messages}


THINKING = (
    Rule(
        id="F1",
        says="the thinking of the latest assistant message comes back complete and in order, even where it is empty",
        check=_complete,
        source="[D] api/errors",
        breaks=_unthought(signed_request(*_HELD), 1, 0),
        passes=signed_request(*_HELD),
    ),
    Rule(
        id="F2",
        says="a thinking block has a signature, and the signature is the one made for it",
        check=_signed,
        source="[D] api/errors; [I] anthropics/anthropic-sdk-python#1598",
        breaks=_edited(signed_request(*_HELD), 1, 0, thinking="c"),
        passes=signed_request(*_HELD),
    ),
    Rule(
        id="F3",
        says="a thinking block comes back with the system, tools and messages before it that it was made with",
        check=_bound,
        source="[D] build-with-claude/preserved-thinking; [I] anomalyco/opencode#48637",
        breaks=_edited(signed_request(*_HELD), 0, 0, text="hullo"),
        passes=signed_request(*_HELD),
    ),
    Rule(
        id="F5",
        says="with manual thinking, the assistant turn whose calls are being answered starts with thinking",
        check=_thinks_before_calling,
        source="[D] build-with-claude/extended-thinking; [I]",
        breaks=request(
            user("hello"),
            assistant(call("t1")),
            user(result("t1")),
            thinking=_MANUAL,
            model=MANUAL_MODEL,
            max_tokens=2048,
        ),
        passes=signed_request(
            ("hello",),
            (thought(), call("t1")),
            (result("t1"),),
            thinking=_MANUAL,
            model=MANUAL_MODEL,
            max_tokens=2048,
        ),
    ),
    Rule(
        id="F6",
        says="thinking is of a kind that the model has, with a budget from 1024 and below max_tokens",
        check=_configured,
        source="[D] api/errors",
        breaks=request(thinking={"type": "disabled"}),
        passes=request(thinking={"type": "adaptive"}),
    ),
)
