"""Reading a response: what it means, what is kept of it, what it cost, for every body the API or a bad day may send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crashtests.unit.bodies import asks, body, call, says, text
from crashtests.unit.oddities import nested
from harness.checkpoint import Call, Checkpoint, Message, decode
from harness.response import Reading, keepable, read_response
from harness.stop_reasons import STOP_REASONS, Move

HI = text("hi")
ONE = call("t1")
THINKING = {"type": "thinking", "thinking": "", "signature": "c2ln"}
FUTURE = {"type": "from_the_future", "text": None, "x": [1.5, 10**20, {"y": None}]}


def read(response: Any, *seen: str) -> Reading:
    return read_response(response, set(seen))


@pytest.mark.parametrize(
    ("response", "move"),
    [
        (asks(HI, ONE), Move.RUN_TOOLS),
        (says("hi"), Move.FINISH),
        (body("end_turn"), Move.FINISH),
        (body("stop_sequence", HI, stop_sequence="END"), Move.FINISH),
        (body("pause_turn", HI), Move.SEND_BACK),
        (body("max_tokens", HI), Move.STOP),
        (body("model_context_window_exceeded", HI), Move.STOP),
        (body("refusal"), Move.REFUSAL),
        (body("compaction", HI), Move.STOP),
        (body("", HI), Move.STOP),
    ],
    ids=lambda value: value["stop_reason"] if isinstance(value, dict) else str(value),
)
def test_each_stop_reason_has_its_move(response: Any, move: Move) -> None:
    """Every reason of the table, and any other, leads to the move that the table says."""
    reading = read(response)

    assert move is reading.move
    assert bool(reading.why) == (move in (Move.STOP, Move.REFUSAL))


@pytest.mark.parametrize("stop_reason", [r for r, m in STOP_REASONS.items() if m in (Move.STOP, Move.REFUSAL)])
def test_what_is_not_taken_leaves_nothing_to_save_or_run(stop_reason: str) -> None:
    """A turn cut short or refused gives no content, no calls and no tokens."""
    reading = read(body(stop_reason, HI, ONE))

    assert ([], [], 0) == (reading.content, reading.calls, reading.tokens)


@pytest.mark.parametrize(
    ("details", "category"),
    [({"category": "cyber"}, "'cyber'"), ({"category": None}, "None"), (None, "None"), ("odd", "None")],
)
def test_a_refusal_names_its_category(details: Any, category: str) -> None:
    """What the API says of a refusal is in the reason, whatever shape it has."""
    reading = read(body("refusal", stop_details=details))

    assert f"the model refused (category {category})" == reading.why


def test_blank_text_is_dropped_and_all_else_is_kept() -> None:
    """Blank text, which the API emits and does not take back, is left out; every other block stays value for value."""
    reading = read(asks(text(""), THINKING, text(" \n"), FUTURE, HI, ONE, text("")))

    assert [THINKING, FUTURE, HI, ONE] == reading.content
    assert [ONE] == reading.calls


def test_a_turn_of_blank_text_is_an_empty_answer() -> None:
    """Nothing but blank text at the end of a task is an empty answer and no message."""
    reading = read(says(" "))

    assert (Move.FINISH, [], "") == (reading.move, reading.content, reading.answer)


def test_the_answer_is_the_text_and_nothing_else() -> None:
    """Thinking and blocks of unknown type do not show in the answer."""
    reading = read(body("end_turn", THINKING, text("a "), FUTURE, text("b")))

    assert "a b" == reading.answer


def test_calls_of_server_tools_are_not_ours() -> None:
    """A server_tool_use in the same turn stays as it came, and is no call to answer."""
    server = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    reading = read(asks(server, ONE))

    assert [server, ONE] == reading.content
    assert [ONE] == reading.calls


PROTOCOL_ERRORS: list[tuple[Any, str]] = [
    (None, "the response is a NoneType"),
    ("<html>", "the response is a str"),
    ({}, "stop_reason is None"),
    (body(None, HI), "stop_reason is None: the response never ended"),
    (body(["tool_use"]), "stop_reason is ['tool_use']"),
    (body("end_turn", content=None), "content is None"),
    (body("end_turn", content="hi"), "content is 'hi'"),
    (body("end_turn", "hi"), "content block 'hi' has no type"),
    (body("end_turn", {"text": "hi"}), "has no type"),
    (body("end_turn", {"type": ["text"]}), "has no type"),
    (body("end_turn", text("a\ud800")), "lone surrogate"),
    (asks(call("t1", mean=float("nan"))), "NaN"),
    (asks(call("t1", deep=nested(101))), "nested more than 100 deep"),
    (body("end_turn", HI, extra=nested(100_000)), "nested more than 100 deep"),
    (body("tool_use", HI), "stop_reason is 'tool_use' and the turn makes 0 calls"),
    (body("end_turn", ONE), "stop_reason is 'end_turn' and the turn makes 1 calls"),
    (body("pause_turn", ONE), "stop_reason is 'pause_turn' and the turn makes 1 calls"),
    (body("pause_turn", text("")), "a paused turn without content"),
    (asks(call("")), "tool_use id ''"),
    (asks(call("call:1")), "tool_use id 'call:1'"),
    (asks(ONE | {"id": None}), "tool_use id None"),
    (asks(ONE | {"id": ["t1"]}), "tool_use id ['t1']"),
    (asks(call("t1\n")), "tool_use id"),
    (asks(call("t1", "two words")), "tool_use name 'two words'"),
    (asks(call("t1", "n" * 129)), "tool_use name"),
    (asks(call("t1"), call("t2"), call("t1")), "'t1' is there twice"),
    (asks(call("t2"), call("seen")), "'seen' was used by an earlier turn"),
    (asks({"type": "tool_use", "id": "t1", "name": "act"}), "the input of tool_use 't1' is None"),
    (asks(ONE | {"input": '{"a": 1}'}), "not an object"),
    (asks(ONE | {"input": []}), "not an object"),
]


def test_what_breaks_the_protocol_is_stopped_with_the_reason() -> None:
    """A body the API should not have sent is never run: it stops the run and says what was wrong."""
    for response, why in PROTOCOL_ERRORS:
        reading = read(response, "seen")

        assert Move.STOP is reading.move, why
        assert "protocol error: " == reading.why[:16]
        assert why in reading.why


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 3, "output_tokens": 4}, 7),
        (
            {
                "input_tokens": 1,
                "output_tokens": 2,
                "cache_creation_input_tokens": 30,
                "cache_read_input_tokens": 400,
                "cache_creation": {"ephemeral_5m_input_tokens": 30},
                "service_tier": "standard",
            },
            433,
        ),
        ({"input_tokens": None, "output_tokens": 4, "cache_read_input_tokens": None}, 4),
        ({"input_tokens": "3", "output_tokens": True, "cache_read_input_tokens": 1.5}, 0),
        (None, 0),
        ([3], 0),
    ],
)
def test_tokens_are_all_that_the_response_used(usage: Any, tokens: int) -> None:
    """Cached tokens count too; a usage that is missing or odd counts what it can."""
    reading = read(says("hi", usage=usage))

    assert tokens == reading.tokens


@pytest.mark.parametrize("response", [{"x": float("nan")}, ["\ud800"], nested(100_000), {"x": 10**5000}, {1, 2}])
def test_what_cannot_be_stored_is_kept_as_its_text(response: Any) -> None:
    """What is put beside the messages can always be stored, even where JSON has no word for it."""
    kept = keepable(response)

    assert isinstance(kept, str)
    assert json.dumps(kept, ensure_ascii=False).encode()


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
_blocks = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "tool_use", "tool_result", "thinking", "other"]) | _json,
        "id": st.sampled_from(["t1", "seen", ""]) | _json,
        "name": st.just("act") | _json,
        "input": st.just({}) | _json,
        "text": _json,
    },
)
_bodies = _json | st.fixed_dictionaries(
    {"content": st.lists(_blocks | _json, max_size=3) | _json, "stop_reason": st.sampled_from([*STOP_REASONS]) | _json},
    optional={"usage": _json | st.dictionaries(st.sampled_from(["input_tokens", "output_tokens"]), _json)},
)


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ({"type": "tool_result", "tool_use_id": "t1", "content": "done"}, "the model's turn holds a tool_result"),
        ({"type": "text", "text": 5}, "is none"),
        ({"type": "text"}, "is none"),
    ],
)
def test_a_block_that_could_not_be_sent_back_is_no_turn(block: dict[str, Any], why: str) -> None:
    """A model that answers its own call, and a text that is none: nothing is run, and nothing is saved of it."""
    reading = read(asks(ONE, block))

    assert (Move.STOP, [], []) == (reading.move, reading.content, reading.calls)
    assert reading.why.startswith("protocol error: ")
    assert why in reading.why


@settings(derandomize=True, database=None, deadline=None, max_examples=80)
@given(st.lists(_blocks, max_size=3), st.sampled_from([*STOP_REASONS]))
def test_what_is_taken_can_be_read_back(blocks: list[Any], stop_reason: str) -> None:
    """A checkpoint with a turn that was taken is one that the next life does not refuse."""
    reading = read(body(stop_reason, *blocks))
    calls = [Call(block["id"], block["name"], None, block["input"]) for block in reading.calls]
    messages: list[Message] = [{"role": "user", "content": "Do it."}, {"role": "assistant", "content": reading.content}]
    scene = Checkpoint("run", "Do it.", {}, True, 50, turns=int(bool(calls)), pending=calls, messages=messages)

    assert calls == decode(json.loads(json.dumps(scene.head())), messages).pending


@settings(derandomize=True, database=None, deadline=None, max_examples=80)
@given(_bodies)
def test_no_body_can_raise(response: Any) -> None:
    """Whatever comes is read without an error, and what is taken can be stored, sent and answered."""
    reading = read(response, "seen")

    assert json.dumps([reading.content, keepable(response)], ensure_ascii=False, allow_nan=False).encode()
    assert bool(reading.calls) == (reading.move is Move.RUN_TOOLS)
    assert len({block["id"] for block in reading.calls} - {"seen"}) == len(reading.calls)
    assert reading.tokens >= 0 or not isinstance(response, dict) or "usage" in response
