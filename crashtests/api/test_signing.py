"""Signed thinking blocks: a history that only grew passes, and every edit of it is refused, by the right rule."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crashtests.api import Signer, judge
from crashtests.api.examples import (
    SIGNER,
    Json,
    assistant,
    cached,
    call,
    found,
    request,
    result,
    search,
    signed_request,
    text,
    thought,
    tool,
    user,
    web_search,
)

Edit = Callable[[Json], object]

REDACTED: Json = {"type": "redacted_thinking", "data": "xyz"}


def held() -> Json:
    """Three turns with thinking, the second in three places; message 5 is the latest of the assistant."""
    return signed_request(
        ("hello", "there"),
        (thought("a"), "let me look", call("t1", input={"x": 1})),
        (result("t1", "much to be seen"),),
        (thought("b"), call("t2"), thought("c"), call("t3"), REDACTED),
        (result("t2"), result("t3", [text("seen")])),
        (thought("d"), thought("e"), call("t4")),
        (result("t4"),),
        system="be brief",
        tools=[tool("look"), tool("act")],
    )


def thinking_at(body: Json) -> list[tuple[int, int]]:
    return [
        (i, j)
        for i, message in enumerate(body["messages"])
        for j, block in enumerate(message["content"])
        if block["type"] in ("thinking", "redacted_thinking")
    ]


def drop_thinking(body: Json, places: list[tuple[int, int]]) -> None:
    for i, j in sorted(places, reverse=True):
        del body["messages"][i]["content"][j]


def block(body: Json, i: int, j: int) -> Json:
    found_block: Json = body["messages"][i]["content"][j]
    return found_block


def broken(body: Json, signer: Signer = SIGNER) -> set[str]:
    return {violation.rule for violation in judge(body, signer=signer)}


def broken_by(edits: dict[str, Edit]) -> dict[str, set[str]]:
    """The rules that each edit of the history breaks."""
    found: dict[str, set[str]] = {}
    for name, edit in edits.items():
        body = held()
        edit(body)
        found[name] = broken(body)
    return found


def test_a_history_that_only_grew_passes() -> None:
    """Every prefix of a conversation that ends with the user's word is accepted, as it was when it was held."""
    body = held()

    for end in range(1, len(body["messages"]) + 1, 2):
        assert judge({**body, "messages": body["messages"][:end]}, signer=SIGNER) == []


EDITS: dict[str, Edit] = {
    "a user message edited": lambda b: block(b, 0, 0).update(text="hullo"),
    "an assistant text edited": lambda b: block(b, 1, 1).update(text="let me see"),
    "the input of a call changed": lambda b: block(b, 1, 2).update(input={"x": 2}),
    "a key added to the input of a call": lambda b: block(b, 1, 2).update(input={"x": 1, "cache_control": None}),
    "a result shortened": lambda b: block(b, 2, 0).update(content="much to be"),
    "a result turned into blocks": lambda b: block(b, 2, 0).update(content=[text("much to be seen")]),
    "a result turned into an error": lambda b: block(b, 2, 0).update(is_error=True),
    "a null left out or added": lambda b: block(b, 1, 1).update(citations=None),
    "blocks reordered": lambda b: b["messages"][0]["content"].reverse(),
    "results reordered": lambda b: b["messages"][4]["content"].reverse(),
    "a block deleted": lambda b: b["messages"][0]["content"].pop(),
    "a turn deleted": lambda b: b["messages"].__delitem__(slice(1, 3)),
    "text appended to an earlier turn": lambda b: b["messages"][2]["content"].append(text("and more")),
    "a message inserted": lambda b: b["messages"].insert(1, user("please")),
    "the system prompt changed": lambda b: b.update(system="be brief."),
    "the system prompt removed": lambda b: b.pop("system"),
    "a tool added": lambda b: b["tools"].append(tool("more")),
    "a tool removed": lambda b: b["tools"].pop(),
    "a tool renamed": lambda b: b["tools"][1].update(name="do"),
    "a tool described in other words": lambda b: b["tools"][1].update(description="Acts."),
    "a tool's schema changed": lambda b: b["tools"][1]["input_schema"].update(required=["x"]),
    "a tool deferred": lambda b: b["tools"][1].update(defer_loading=True),
    "a call moved before its thinking": lambda b: b["messages"][3]["content"].insert(
        0, b["messages"][3]["content"].pop(1)
    ),
    "a thinking block removed from the middle": lambda b: drop_thinking(b, [(3, 2)]),
    "all thinking of a turn in the middle removed": lambda b: drop_thinking(b, [(3, 0), (3, 2), (3, 4)]),
    "a thinking block doubled": lambda b: b["messages"][3]["content"].insert(0, block(b, 3, 0)),
    "thinking moved to another turn": lambda b: b["messages"][5]["content"].insert(
        0, b["messages"][1]["content"].pop(0)
    ),
}


def test_every_edit_of_the_past_is_refused() -> None:
    """An edit of anything before a thinking block unbinds it, and the block itself still counts as genuine."""
    assert {} == {name: rules for name, rules in broken_by(EDITS).items() if rules & {"F2", "F3"} != {"F3"}}


FORGERIES: dict[str, Edit] = {
    "text edited": lambda b: block(b, 1, 0).update(thinking="A"),
    "text emptied": lambda b: block(b, 1, 0).update(thinking=""),
    "an invented signature": lambda b: block(b, 1, 0).update(signature="EqQBCgIYAhIM"),
    "the signature of another block": lambda b: block(b, 1, 0).update(signature=block(b, 3, 0)["signature"]),
    "one digit changed": lambda b: block(b, 1, 0).update(signature=block(b, 1, 0)["signature"][:-1] + "x"),
    "another binding written in": lambda b: block(b, 1, 0).update(
        signature=":".join(
            [*block(b, 1, 0)["signature"].split(":")[:-2], "0-0-0", block(b, 1, 0)["signature"].split(":")[-1]]
        )
    ),
    "another model written in": lambda b: block(b, 1, 0).update(
        signature=block(b, 1, 0)["signature"].replace("claude-opus-5-5", "claude-opus-5")
    ),
    "redacted data edited": lambda b: block(b, 3, 4).update(data="x" + block(b, 3, 4)["data"]),
    "redacted data invented": lambda b: block(b, 3, 4).update(data="xyz"),
}


def test_a_block_that_was_never_signed_is_refused() -> None:
    """A tampered or invented thinking block is told apart from a genuine one in the wrong place."""
    assert {} == {name: rules for name, rules in broken_by(FORGERIES).items() if "F2" not in rules}


def test_a_message_names_what_was_changed() -> None:
    """The refusal says which of system, tools and messages differs, as the API usually does."""
    body = held() | {"system": "be kind"}

    message = judge(body, signer=SIGNER)[0].message

    assert "changed since: `system`" in message
    assert "tools" not in message


def merge_neighbours(body: Json) -> None:
    first = body["messages"][0]
    body["messages"][:1] = [user(first["content"][0]), user(first["content"][1])]


NOT_EDITS: dict[str, Edit] = {
    "a message appended": lambda b: b["messages"].append(user("go on")),
    "results answered with text": lambda b: b["messages"][-1]["content"].append(text("go on")),
    "cache markers": lambda b: [x.update(cached()) for x in (b["tools"][1], block(b, 0, 1), block(b, 2, 0))],
    "a cache marker inside a result": lambda b: block(b, 4, 1)["content"][0].update(cached()),
    "max_tokens": lambda b: b.update(max_tokens=2048),
    "tool_choice": lambda b: b.update(tool_choice={"type": "none"}),
    "metadata": lambda b: b.update(metadata={"user_id": "u1"}),
    "output_config": lambda b: b.update(output_config={"effort": "low"}),
    "stream": lambda b: b.update(stream=True),
    "the system prompt as blocks": lambda b: b.update(system=[text("be brief")]),
    "a turn written as two messages": merge_neighbours,
    "the first thinking block removed": lambda b: drop_thinking(b, [(1, 0)]),
    "thinking removed from the start": lambda b: drop_thinking(b, thinking_at(b)[:3]),
    "thinking removed from the end, whole turns": lambda b: drop_thinking(b, thinking_at(b)[4:]),
    "all thinking removed": lambda b: drop_thinking(b, thinking_at(b)),
    "a deferred tool added": lambda b: b["tools"].append(tool("later", defer_loading=True)),
    "another model": lambda b: b.update(model="claude-sonnet-5-5"),
}


def test_what_is_no_edit_is_not_refused() -> None:
    """What the API does not count as an edit leaves every signature valid."""
    assert {} == {name: rules for name, rules in broken_by(NOT_EDITS).items() if rules}


def test_the_latest_turn_may_not_lose_some_of_its_thinking() -> None:
    """What older turns may lose, the latest assistant turn may not: its first or its last thinking block."""
    for j in (0, 1):
        body = held()
        drop_thinking(body, [(5, j)])

        assert "F1" in broken(body)


def test_the_loss_of_all_thinking_of_the_latest_turn_cannot_be_seen() -> None:
    """A documented limit: without any of its thinking, a response looks like one that never had any."""
    body = held()
    drop_thinking(body, [(5, 0), (5, 1)])

    assert broken(body) == set()


def test_thinking_reordered_in_the_latest_turn_is_refused() -> None:
    """The thinking blocks of the latest assistant turn come back in their order."""
    body = held()
    body["messages"][5]["content"][:2] = reversed(body["messages"][5]["content"][:2])

    assert "F1" in broken(body)


def test_a_block_put_back_is_refused() -> None:
    """Thinking left out of a request may not return once the model has thought without it."""
    before = held()
    body = copy.deepcopy(before)
    drop_thinking(body, thinking_at(body)[-2:])
    content = SIGNER.signed(body, [thought("f"), call("t5")])
    body["messages"] += [{"role": "assistant", "content": content}, user(result("t5"))]
    assert broken(body) == set()

    body["messages"][5] = before["messages"][5]

    assert broken(body) == {"F3"}


def test_blank_text_of_a_response_may_be_left_out() -> None:
    """The API emits blank text but refuses it in a request, so a harness that drops it keeps every signature."""
    body = request()
    content = SIGNER.signed(body, [text(""), thought("a"), text(" \n"), call("t1"), thought("b"), text(""), call("t2")])
    kept = [b for b in content if b["type"] != "text"]
    body["messages"] += [{"role": "assistant", "content": kept}, user(result("t1"), result("t2"))]
    more = SIGNER.signed(body, [thought("c"), text("done")])
    body["messages"] += [{"role": "assistant", "content": more}, user("go on")]

    assert broken(body) == set()


@pytest.mark.parametrize("joined", [False, True], ids=["two messages", "one message"])
def test_a_paused_turn_may_be_continued_in_its_own_message_or_in_another(joined: bool) -> None:
    """The continuation of a paused turn verifies however the harness writes the two responses down."""
    body = request(tools=[tool(), web_search()])
    paused = SIGNER.signed(body, [thought("a"), search("s1"), thought("b")])
    body["messages"].append({"role": "assistant", "content": paused})
    assert broken(body) == set()

    rest = SIGNER.signed(body, [found("s1"), thought("c"), call("t1")])
    if joined:
        body["messages"][-1] = assistant(*paused, *rest)
    else:
        body["messages"].append({"role": "assistant", "content": rest})
    body["messages"].append(user(result("t1")))

    assert broken(body) == set()


def test_a_deferred_tool_counts_once_the_conversation_refers_to_it() -> None:
    """Changing a deferred tool is no edit until a call or a search result names it, and one from there on."""
    late = tool("late", defer_loading=True)
    body = request(tools=[tool(), late])
    body["messages"].append({"role": "assistant", "content": SIGNER.signed(body, [thought("a"), call("t1", "late")])})
    body["messages"].append(user(result("t1")))
    changed = body | {"tools": [tool(), late | {"description": "Comes late."}]}
    assert broken(changed) == set()

    body["messages"].append({"role": "assistant", "content": SIGNER.signed(body, [thought("b"), text("done")])})
    body["messages"].append(user("go on"))
    changed = body | {"tools": [tool(), late | {"description": "Comes late."}]}

    assert broken(body) == set()
    assert broken(changed) == {"F3"}


def test_sign_and_signed_agree() -> None:
    """Signing block by block gives what signing the whole content gives."""
    body = request(system="be brief")
    content = SIGNER.signed(body, [thought("a"), call("t1"), thought("b")])

    first = SIGNER.sign(body, [], "a", total=2)
    second = SIGNER.sign(body, content[:2], "b")

    assert [first, second] == [content[0]["signature"], content[2]["signature"]]


def test_signing_leaves_the_response_alone() -> None:
    """The content handed in is copied, not changed."""
    content = [thought("a"), REDACTED, call("t1")]
    before = copy.deepcopy(content)

    SIGNER.signed(request(), content)

    assert before == content


def test_only_the_same_key_accepts_a_signature() -> None:
    """Signers agree across processes by their key alone, and another key's blocks are invalid."""
    assert broken(held(), Signer()) == set()
    assert "F2" in broken(held(), Signer(b"another"))


words = st.sampled_from(["", " ", "a", "\u00e9", "\u2028", "\U0001f980", '"', "\\", "\ud800"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
responses = st.lists(
    st.one_of(
        st.builds(thought, words),
        st.builds(text, words),
        st.just(REDACTED),
        st.builds(lambda value: call("t1", input={"value": value}), values),
    ),
    min_size=1,
    max_size=5,
)


def flipped(value: Any) -> Any:
    """The same value with the keys of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: flipped(value[key]) for key in reversed(value)}
    return [flipped(inner) for inner in value] if isinstance(value, list) else value


@settings(max_examples=100, deadline=None)
@given(contents=st.lists(responses, min_size=1, max_size=3), system=words)
def test_a_round_trip_through_json_keeps_signatures_valid(contents: list[list[Json]], system: str) -> None:
    """Saving and loading, with sorted keys or in any other order, changes no value and so unbinds no block."""
    body = request(system=system)
    for content in contents:
        body["messages"].append({"role": "assistant", "content": SIGNER.signed(body, content)})
        body["messages"].append(user("go on"))

    loaded = json.loads(json.dumps(body, sort_keys=True))

    assert list(SIGNER.faults(body)) == []
    assert list(SIGNER.faults(loaded)) == []
    assert list(SIGNER.faults(flipped(body))) == []
