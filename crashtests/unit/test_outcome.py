"""What a call came to: whatever a tool returned or raised, in a form that the model, the disk and the wire can take."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from crashtests.api import judge
from crashtests.unit.bodies import call
from crashtests.unit.lives import both_stores
from crashtests.unit.oddities import (
    IMAGE,
    OUTCOMES,
    TEXT,
    BadBytes,
    BadDict,
    BadList,
    Mute,
    OddlyNamed,
    ShoutingStr,
    Unshowable,
    circular,
    nested,
    released,
)
from harness import Effect, Store
from harness.checkpoint import Call, Checkpoint, Message
from harness.ledger import Ledger, Settled, finished
from harness.outcome import NO_OUTPUT, Outcome, raised, returned, tool_result


async def _coroutine() -> str:
    raise AssertionError("nobody awaits this")


def _generator() -> Iterator[str]:
    raise AssertionError("nobody asks this for anything")
    yield


@pytest.mark.parametrize(("function", "kind"), [(_coroutine, "coroutine"), (_generator, "generator")])
def test_what_has_not_run_has_not_succeeded(function: Callable[[], object], kind: str) -> None:
    """A tool that hands back something still to be run has done nothing, and the model is told so."""
    says = f"the tool returned a {kind}, so it has not run: a tool is a plain function"

    assert Outcome(says, is_error=True) == returned(function())


TEXTS: list[tuple[Any, str]] = [
    ("plain", "plain"),
    ("", NO_OUTPUT),
    (" \n\t", NO_OUTPUT),
    (None, NO_OUTPUT),
    (0, "0"),
    (False, "false"),
    ({}, "{}"),
    ([], "[]"),
    ((), "[]"),
    ({"ok": True}, '{"ok": true}'),
    ([1, None, "é"], '[1, null, "é"]'),
    ("caf\u00e9 \U0001f600", "caf\u00e9 \U0001f600"),
    (b"caf\xc3\xa9", "café"),
    (b"\xff\x00a", "\\xff\x00a"),
    (b"", NO_OUTPUT),
    (bytearray(b"ab"), "ab"),
    (memoryview(b"abcd")[::2], "ac"),
    (float("nan"), "NaN"),
    (float("-inf"), "-Infinity"),
    ({"mean": float("nan")}, '{"mean": NaN}'),
    ("a\udcb2b", "a\\udcb2b"),
    ({"a": ["\ud800"]}, '{"a": ["\\ud800"]}'),
    ({1: 2, None: 3}, '{"1": 2, "null": 3}'),
    ({(1, 2): 3}, "{(1, 2): 3}"),
    (datetime.date(2026, 1, 2), '"datetime.date(2026, 1, 2)"'),
    (ShoutingStr("shout"), "shout"),
    (circular(), "[[...]]"),
    (nested(100_000), "(a list that cannot be shown)"),
    (Unshowable(), "(a Unshowable that cannot be shown)"),
    ([Unshowable()], "(a list that cannot be shown)"),
    (BadBytes(b"x"), "(a BadBytes that cannot be shown)"),
    (released(), "(a memoryview that cannot be shown)"),
    (BadDict(type="text"), "{'type': 'text'}"),
    (10**5000, "(a int that cannot be shown)"),
]


def test_whatever_is_returned_becomes_a_text() -> None:
    """Every value has a text form that is not blank and that can be sent."""
    for number, (output, content) in enumerate(TEXTS):
        assert Outcome(content) == returned(output), f"TEXTS[{number}], of type {type(output)}"


@pytest.mark.parametrize("output", [BadList([1]), [BadDict(type="text", text="x")]], ids=["list", "dict in a list"])
def test_containers_that_raise_are_stillOUTCOMES(output: Any) -> None:
    """A container with methods of its own that raise does not lose the outcome of a tool that ran."""
    outcome = returned(output)

    assert not outcome.is_error
    assert outcome.content


def test_a_big_output_is_whole() -> None:
    """Nothing is cut: how much the model can take is not for the harness to say."""
    outcome = returned("x" * 5_000_000)

    assert 5_000_000 == len(outcome.content)


@pytest.mark.parametrize("blocks", [[TEXT], [IMAGE], [TEXT, IMAGE]], ids=["text", "image", "both"])
def test_content_blocks_stay_blocks(blocks: list[dict[str, Any]]) -> None:
    """A list of blocks that the API takes in a tool_result goes to it as it is."""
    outcome = returned(blocks)

    assert Outcome(blocks) == outcome


@pytest.mark.parametrize(
    "blocks",
    [
        [{"type": "text", "text": " "}],
        [{"type": "text"}],
        [{"type": "text", "text": 7}],
        [{"type": "text", "text": "found", "score": 1}],
        [{"type": "image", "source": "cat.png"}],
        [{"type": "document", "source": None}],
        [{"type": "search_result", "source": "a", "title": "b"}],
        [{"type": "search_result", "source": "a", "title": "b", "content": "c"}],
        [{"type": "tool_use", "id": "t2", "name": "act", "input": {}}],
        [{"type": ["text"], "text": "x"}],
        [TEXT, "and a string"],
    ],
    ids=json.dumps,
)
def test_what_only_resembles_blocks_becomes_their_json(blocks: list[Any]) -> None:
    """Records that the API would refuse as blocks are shown as JSON: one bad block would break every later request."""
    outcome = returned(blocks)

    assert Outcome(json.dumps(blocks)) == outcome


@pytest.mark.parametrize(
    ("block", "content"),
    [
        ({"type": "text", "text": "a\udcb2"}, '[{"type": "text", "text": "a\\udcb2"}]'),
        ({"type": "image", "source": {"x": float("nan")}}, '[{"type": "image", "source": {"x": NaN}}]'),
        (
            {"type": "image", "source": {"x": nested(150, 1)}},
            json.dumps([{"type": "image", "source": {"x": nested(150, 1)}}]),
        ),
    ],
    ids=["surrogate", "NaN", "nesting"],
)
def test_blocks_that_cannot_be_sent_become_text(block: dict[str, Any], content: str) -> None:
    """A block that JSON or UTF-8 cannot carry, or that no reader would take, is put into words."""
    outcome = returned([block])

    assert Outcome(content) == outcome


def test_a_later_change_of_the_returned_list_changes_nothing() -> None:
    """The outcome is fixed once: a tool that keeps its list cannot change what was recorded."""
    blocks = [{"type": "text", "text": "first"}]
    outcome = returned(blocks)
    blocks[0]["text"] = "second"

    assert Outcome([{"type": "text", "text": "first"}]) == outcome


def test_an_error_holds_no_image() -> None:
    """The API takes only text in an error (rule D12), so blocks become their JSON."""
    outcome = returned([IMAGE], is_error=True)

    assert Outcome(json.dumps([IMAGE]), is_error=True) == outcome


@pytest.mark.parametrize(
    ("error", "content"),
    [
        (ValueError("no such file"), "ValueError: no such file"),
        (ValueError(""), "ValueError"),
        (KeyError("id"), "KeyError: 'id'"),
        (ValueError("a\udcb2"), "ValueError: a\\udcb2"),
        (Mute(), "Mute: (its message could not be made)"),
        (OddlyNamed(), "OddlyNamed: odd"),
        (ExceptionGroup("two", [ValueError("a")]), "ExceptionGroup: two (1 sub-exception)"),
    ],
)
def test_an_exception_says_its_class_and_message(error: Exception, content: str) -> None:
    """A tool that raised is an error result which is never empty (rule D13)."""
    outcome = raised(error)

    assert Outcome(content, is_error=True) == outcome


def test_only_an_error_carries_is_error() -> None:
    """The block that answers a call is the smallest one that says it."""
    plain, error = tool_result("t1", Outcome("x")), tool_result("t1", Outcome("x", is_error=True))

    assert {"type": "tool_result", "tool_use_id": "t1", "content": "x"} == plain
    assert plain | {"is_error": True} == error


def _request(outcome: Outcome) -> dict[str, Any]:
    return {
        "model": "scripted",
        "max_tokens": 1,
        "tools": [{"name": "act", "description": "Acts.", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "Do it."},
            {"role": "assistant", "content": [call("t1")]},
            {"role": "user", "content": [tool_result("t1", outcome)]},
        ],
    }


@settings(derandomize=True, database=None, deadline=None, max_examples=100)
@given(OUTCOMES)
def test_any_outcome_can_be_sent(outcome: Outcome) -> None:
    """Whatever a tool returned or raised, the request that holds its result breaks no rule of the API."""
    request = _request(outcome)

    assert json.dumps(request, ensure_ascii=False, allow_nan=False).encode()
    assert [] == judge(request)


@both_stores
@settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(outcome=OUTCOMES)
def test_any_outcome_survives_its_store(store_class: type[Store], fast_path: Path, outcome: Outcome) -> None:
    """What the ledger gives back is what was recorded, value for value."""
    store, pending = store_class(fast_path / "state"), Call("t1", "act", Effect.SIDE_EFFECT, {})
    messages: list[Message] = [{"role": "user", "content": "Do it."}, {"role": "assistant", "content": [call("t1")]}]
    scene = Checkpoint("run", "Do it.", {}, True, 5, turns=1, pending=[pending], messages=messages)
    with store.owned(create=True):
        if store.checkpoint_path.exists():
            store.load()
        else:
            store.create(scene)
        ledger = Ledger("run")
        entry = finished(pending, outcome, Settled.RUN)
        ledger.put(entry)
        store.record(ledger, entry, "effect")

    assert entry == store.read()[1].get("t1")
