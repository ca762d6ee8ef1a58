"""The checkpoint and the ledger as values: what they hold comes back, and what they cannot have held is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crashtests.unit.bodies import call, result, text
from harness import Effect
from harness.checkpoint import BadScene, Call, Checkpoint, decode, tool_uses
from harness.ledger import (
    BadLedger,
    Entry,
    Ledger,
    Settled,
    check_belongs,
    decode_entry,
    finished,
    input_sha256,
    started,
)
from harness.outcome import Outcome

SERVER = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}


def scene() -> Checkpoint:
    """One turn answered, two calls pending: one of a tool there was, one of a tool there was not."""
    return Checkpoint(
        run_id="r",
        task="Do it.",
        prefix={"model": "scripted", "tools": [{"name": "act"}]},
        started_marks=True,
        turns_max=9,
        turns=2,
        tokens_used=30,
        pending=[Call("t2", "act", Effect.IDEMPOTENT, {"n": 2}), Call("t3", "gone", None, {})],
        messages=[
            {"role": "user", "content": "Do it."},
            {"role": "assistant", "content": [text("hm"), call("t1", n=1)]},
            {"role": "user", "content": [result("t1", "ok"), text("go on")]},
            {"role": "assistant", "content": [SERVER, call("t2", n=2), call("t3", "gone")]},
        ],
    )


def as_json() -> tuple[dict[str, Any], list[Any]]:
    head, messages = json.loads(json.dumps([scene().head(), scene().messages]))
    return head, messages


def test_a_scene_comes_back_as_it_was() -> None:
    """Head and messages as JSON values, and back, are the same scene, effect classes and inputs included."""
    assert scene() == decode(*as_json())


def test_only_client_calls_are_calls() -> None:
    """A server tool's call is not ours to answer, and a text is no call."""
    last = scene().messages[-1]

    assert ["t2", "t3"] == [block["id"] for block in tool_uses(last)]
    assert [] == tool_uses({"role": "user", "content": "Do it."})


_DAMAGE: dict[str, Callable[[dict[str, Any], list[Any]], object]] = {
    "no task": lambda head, messages: head.pop("task"),
    "task of wrong type": lambda head, messages: head.update(task=None),
    "turns is a bool": lambda head, messages: head.update(turns=True),
    "marks is an int": lambda head, messages: head.update(started_marks=1),
    "unknown field": lambda head, messages: head.update(extra=1),
    "unknown status": lambda head, messages: head.update(status="paused"),
    "turns not as in messages": lambda head, messages: head.update(turns=1),
    "nothing pending": lambda head, messages: head.update(pending=[]),
    "one pending": lambda head, messages: head["pending"].pop(),
    "pending in another order": lambda head, messages: head["pending"].reverse(),
    "pending by another name": lambda head, messages: head["pending"][0].update(name="other"),
    "pending of unknown class": lambda head, messages: head["pending"][0].update(effect="harmless"),
    "pending with more": lambda head, messages: head["pending"][0].update(input={}),
    "pending no object": lambda head, messages: head.update(pending=["t2", "t3"]),
    "no messages": lambda head, messages: messages.clear(),
    "assistant first": lambda head, messages: messages.pop(0),
    "unknown role": lambda head, messages: messages[0].update(role="system"),
    "content of wrong type": lambda head, messages: messages[0].update(content=None),
    "block no object": lambda head, messages: messages[1]["content"].append("text"),
    "turn unanswered": lambda head, messages: messages.pop(2),
    "turn answered in words": lambda head, messages: messages[2].update(content="ok"),
    "result without call": lambda head, messages: messages[2]["content"].append(result("t9", "ok")),
    "result twice": lambda head, messages: messages[2]["content"].append(result("t1", "ok")),
    "result of another call": lambda head, messages: messages[2]["content"][0].update(tool_use_id="t9"),
    "result of no call": lambda head, messages: messages[2]["content"][0].pop("tool_use_id"),
    "assistant turn lost": lambda head, messages: (messages.pop(), head.update(turns=1)),
    "id seen before": lambda head, messages: (
        messages[3]["content"][1].update(id="t1"),
        head["pending"][0].update(tool_use_id="t1"),
    ),
    "id empty": lambda head, messages: messages[1]["content"][1].update(id=""),
    "input no object": lambda head, messages: messages[1]["content"][1].update(input=[]),
    "name missing": lambda head, messages: messages[1]["content"][1].pop("name"),
}


@pytest.mark.parametrize("damage", _DAMAGE.values(), ids=_DAMAGE)
def test_a_scene_that_cannot_have_been_written_is_refused(damage: Callable[..., object]) -> None:
    """A missing, foreign or contradictory part is found before anything is done on the strength of it."""
    head, messages = as_json()
    damage(head, messages)

    with pytest.raises(BadScene):
        decode(head, messages)


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=2)
    | st.sampled_from(["user", "assistant", "tool_use"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "id", "name", "input"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@settings(derandomize=True, database=None, deadline=None, max_examples=60)
@given(st.sampled_from([*as_json()[0]]), st.integers(0, 3), _json)
def test_no_value_can_make_decoding_raise_anything_else(name: str, position: int, value: Any) -> None:
    """Whatever stands in place of a field or a message, it is a scene or it is refused."""
    for target in ("head", "messages"):
        head, messages = as_json()
        if target == "head":
            head[name] = value
        else:
            messages[position] = value
        try:
            decoded = decode(head, messages)
        except BadScene:
            continue
        assert messages == decoded.messages


ACT = Call("t1", "act", Effect.SIDE_EFFECT, {"b": 1, "a": [1.5, None]})
FINISHED = finished(ACT, Outcome("ok"), Settled.RUN)


@pytest.mark.parametrize(
    "entry",
    [
        started(ACT),
        FINISHED,
        finished(ACT, Outcome([text("ok")]), Settled.VERIFIED),
        finished(ACT, Outcome("gone", is_error=True), Settled.NOT_RUN),
    ],
    ids=["started", "text", "blocks", "error"],
)
def test_an_entry_comes_back_as_it_was(entry: Entry) -> None:
    """A ledger entry as JSON, and back, is the same entry."""
    assert entry == decode_entry("t1", json.loads(json.dumps(entry.to_json())))


@pytest.mark.parametrize(
    "change",
    [
        {"state": "begun"},
        {"state": "started"},
        {"outcome": None},
        {"outcome": {"content": "", "is_error": False}},
        {"outcome": {"content": [], "is_error": False}},
        {"outcome": {"content": "ok"}},
        {"outcome": {"content": "ok", "is_error": "no"}},
        {"settled": None},
        {"settled": "guessed"},
    ],
    ids=json.dumps,
)
def test_an_entry_that_cannot_have_been_written_is_refused(change: dict[str, Any]) -> None:
    """An entry is evidence, so one that is odd in any part is damage."""
    with pytest.raises(BadLedger):
        decode_entry("t1", FINISHED.to_json() | change)


@pytest.mark.parametrize("value", [None, [], "started", {}, {"state": ["started"]}], ids=json.dumps)
def test_what_is_no_entry_is_refused(value: Any) -> None:
    """Anything but an object of the right shape is refused."""
    with pytest.raises(BadLedger):
        decode_entry("t1", value)


def test_a_started_call_can_finish_and_a_finished_one_is_final() -> None:
    """A finished record is never overwritten, neither by another outcome nor by a started mark."""
    ledger = Ledger("r")
    ledger.put(started(ACT))
    ledger.put(FINISHED)

    for entry in (started(ACT), finished(ACT, Outcome("again"), Settled.RUN)):
        with pytest.raises(BadLedger, match="never overwritten"):
            ledger.put(entry)
    assert FINISHED == ledger.get("t1")


def test_the_hash_is_of_the_value_and_not_of_its_form() -> None:
    """Equal JSON values hash alike whatever their key order; a different value does not."""
    one = input_sha256({"b": [1, None], "a": "é"})

    assert one == input_sha256(json.loads('{"a": "\\u00e9",  "b": [1,null]}'))
    assert one != input_sha256({"b": [1, None], "a": "e"})
    assert input_sha256({"a": 1}) != input_sha256({"a": True})


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        (call("t2", **ACT.input), "of a call that no message makes"),
        (call("t1", "other", **ACT.input), "of tool 'act', the call of 'other'"),
        (call("t1", b=1), "of another input"),
    ],
    ids=["id", "tool", "input"],
)
def test_an_entry_cannot_pass_for_another_calls(block: dict[str, Any], problem: str) -> None:
    """Id, tool and input of an entry must be those of a call in the messages."""
    ledger = Ledger("r", {"t1": FINISHED})

    check_belongs(ledger, [call("t0"), call("t1", **ACT.input)])
    with pytest.raises(BadLedger, match=problem):
        check_belongs(ledger, [call("t0"), block])


def test_unknowns_are_the_calls_whose_state_nobody_knows() -> None:
    """A call that was verified, ran or was not run is known, one that only started is not settled yet."""
    outcome, entries = Outcome("?", is_error=True), {}
    for n, settled in enumerate([None, *Settled, Settled.UNKNOWN]):
        made = Call(f"t{n}", "act", None, {})
        entries[f"t{n}"] = finished(made, outcome, settled) if settled else started(made)
    unknown = [n for n, settled in enumerate([None, *Settled, Settled.UNKNOWN]) if settled is Settled.UNKNOWN]

    assert [f"t{n}" for n in unknown] == Ledger("r", entries).unknowns()
    assert len(unknown) == 2
