"""The rule table, checked from both sides: what each rule must refuse, and what none may refuse."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crashtests.api import RULES, Violation, error_body, judge
from crashtests.api.examples import (
    IMAGE,
    MANUAL_MODEL,
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
    system,
    text,
    thought,
    tool,
    user,
    web_search,
    without,
)

TOOLS = [tool(), web_search()]

BREAKS_MORE = {
    # The API reports an empty text block whether or not a marker is on it.
    "C9": {"C2"},
}
"""Rules whose cause is a cause of other rules as well."""

HUGE = {"A6", "A6b"}
"""Settled rules whose examples take half a second to judge, which once is enough for."""


def broken(body: Json, **options: Any) -> set[str]:
    return {violation.rule for violation in judge(body, signer=SIGNER, **options)}


def test_what_breaks_a_rule_is_refused_by_it_alone() -> None:
    """The example that breaks a rule is refused by that rule and by no other, apart from listed shared causes."""
    for rule in RULES:
        refused = judge(rule.breaks, signer=SIGNER)
        answers = {(v.status, v.error_type) for v in refused if v.rule == rule.id}

        assert {violation.rule for violation in refused} == {rule.id} | BREAKS_MORE.get(rule.id, set()), rule.id
        assert answers == {(rule.status, rule.error_type)}, rule.id


def test_the_nearest_legal_request_passes() -> None:
    """The example that passes a rule passes all of them, so that no rule refuses more than it says."""
    refused = {rule.id: violations for rule in RULES if (violations := judge(rule.passes, signer=SIGNER))}

    assert {} == refused


def test_disputed_rules_bind_only_the_strict() -> None:
    """Without strictness a disputed rule refuses nothing, and a settled one what it always does."""
    binding = {rule.id for rule in RULES if rule.id not in HUGE and rule.id in broken(rule.breaks, strict=False)}

    assert {rule.id for rule in RULES if not rule.disputed} - HUGE == binding


def test_a_rule_is_named_once_and_carries_its_evidence() -> None:
    """Rule ids are unique, and every rule names its source."""
    ids = [rule.id for rule in RULES]

    assert sorted(set(ids)) == sorted(ids)
    assert all(rule.says and rule.source for rule in RULES)


def test_judging_leaves_the_request_alone() -> None:
    """The judge reads the request of its subject and must not change it."""
    body = signed_request(("hello",), (thought(), call("t1") | cached()), (result("t1", [text("a")]),))
    before = copy.deepcopy(body)

    judge(body, signer=SIGNER)

    assert before == body


def test_error_body_is_the_envelope_of_the_api() -> None:
    """A violation becomes the error envelope with the request id and the rule in the message."""
    violation = Violation("D1", "t1 is not answered")

    assert error_body(violation, "req_1") == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "t1 is not answered [D1]"},
        "request_id": "req_1",
    }


PAIR = user("hello"), assistant(call("t1")), user(result("t1"))

MORE_BREAKS: list[tuple[str, Json]] = [
    ("A1", without(request(), "model")),
    ("A1", without(request(), "messages")),
    ("A1", request(max_tokens="many")),
    ("A1", request(max_tokens=-1)),
    ("A1", request(max_tokens=True)),
    ("A1", request(user("hello"), {"role": "user"})),
    ("A1", request() | {"messages": [user("hello"), "hello"]}),
    ("A2", request(betas=[])),
    ("A2", request(user("hello") | {"id": "msg_1"})),
    ("A2", request(tools=[tool(effect="read")])),
    ("A2", request(system=[text("be brief", id=1)])),
    ("A2", request(tool_choice={"type": "none", "disable_parallel_tool_use": True})),
    ("A2", request(thinking={"type": "adaptive", "budget_tokens": 2000})),
    ("A2", request(user("hello"), assistant(call("t1")), user(result("t1", [text("a", id=1)])))),
    ("A2", request(user("hello"), assistant(call("t1", partial=False)), user(result("t1")))),
    ("A3", request(top_k=1)),
    ("A5", request(max_tokens=0, output_config={"format": {"type": "json_schema", "schema": {}}})),
    ("A5", request(max_tokens=0, tool_choice={"type": "any"})),
    ("A9", request(user("hello"), assistant(call("t1")), user(result("t1", [text("a", citations=float("nan"))])))),
    ("A9", request(user("hello"), assistant(call("t1", input={"n": float("inf")})), user(result("t1")))),
    ("A9", request(user("hello"), assistant(call("t1", input={"n": b"1"})), user(result("t1")))),
    ("B3", request(user("hello"), {"role": None, "content": "hello"})),
    ("B3b", request(system("be brief"), user("hello"))),
    ("B3b", request(system("be brief"), assistant("hi"), user("hello"))),
    ("B3b", request(user("hello"), assistant("hi"), system("be brief"), assistant("ok"), user("go on"))),
    ("B3b", request(user("hello"), assistant("hi"), system("be brief"), user("go on"))),
    ("B3b", request(user("hello"), {"role": "system", "content": [IMAGE]})),
    ("B3b", request(user("hello"), assistant(call("t1")), system("be brief"), user(result("t1")))),
    ("B5", request(user("hello"), assistant(call("t1")))),
    ("B5", request(user("hello"), assistant(search("s1"), call("t1")), tools=TOOLS)),
    ("B5", request(user("hello"), assistant("hi"), assistant("again"))),
    ("B8", request(user("a", IMAGE, text("b", citations=[{"type": "char_location"}])))),
    (
        "B8",
        request(
            user("hello"), assistant(call("t1")), user(result("t1", [text("b", citations=[{"type": "char_location"}])]))
        ),
    ),
    ("B9", request(system=[text("be brief"), text(" ")])),
    ("B9", request(system=3)),
    ("B9", request(system=["be brief"])),
    ("C0", request() | {"messages": [{"role": "user", "content": None}]}),
    ("C0", request() | {"messages": [{"role": "user", "content": ["hello"]}]}),
    ("C0", request(user({"type": "image"}))),
    ("C0", request(user("hello"), assistant({"type": "redacted_thinking"}, "hi"), user("go on"))),
    ("C1", request() | {"messages": [{"role": "user", "content": ""}]}),
    ("C3", request() | {"messages": [{"role": "user", "content": " "}]}),
    ("C6", request(user({"type": "thinking", "thinking": "hm", "signature": "a"}))),
    ("C6", request(user(found("s1")))),
    ("C7", request(user({"text": "hello"}))),
    ("C7", request(user({"type": ["text"]}))),
    ("C8", request(user(*[text("hello", **cached())] * 3), tools=[tool(**cached())], system=[text("a", **cached())])),
    ("C11", request(user(text("hello", **cached("5m"))), cache_control={"type": "ephemeral", "ttl": "1h"})),
    ("C11", request(user(text("hello", **cached("2h"))))),
    ("C11", request(user(text("hello", **cached("1h"))), **cached("5m"))),
    ("C11", request(user("hello"), assistant(call("t1")), user(result("t1", [text("a", **cached("2h"))])))),
    ("D1", request(user("hello"), assistant(call("t1")), user("go on"))),
    ("D1", request(user("hello"), assistant(call("t1")), user("go on"), assistant("hm"), user("go on"))),
    ("D1", request(user("hello"), assistant(call("t1")), user(result("t2")))),
    ("D1", request(user("hello"), assistant(call("t1")), {"role": "user", "content": "go on"})),
    ("D2", request(user("hello"), assistant(call("t1"), call("t2")), user(result("t1"), "and", result("t2")))),
    ("D3", request(user("hello"), assistant(call("t1"), call("t2")), user(result("t1"), "and"), user(result("t2")))),
    ("D4", request(user(result("t1")))),
    ("D4", request(user("hello"), assistant(call("t1")), user(result("t1"), result("t2")))),
    ("D5", request(user("hello"), assistant(call("t1")), user(result("t1")), user(result("t1")))),
    ("D6", request(user("hello"), assistant(call("t1"), call("t1")), user(result("t1")))),
    ("D7", request(user("hello"), assistant(call("")), user(result("")))),
    ("D7", request(user("hello"), assistant(call("t1\n")), user(result("t1\n")))),
    ("D7", request(user("hello"), assistant(without(call("t1"), "id")), user("go on"))),
    ("D8", request(user("hello"), assistant(without(call("t1"), "input")), user(result("t1")))),
    ("D8", request(user("hello"), assistant(call("t1", input=[])), user(result("t1")))),
    ("D9", request(user("hello"), assistant(call("t1", "n" * 129)), user(result("t1")))),
    ("D11", request(user("hello"), assistant(call("t1")), user(result("t1", {"a": 1})))),
    ("D11", request(user("hello"), assistant(call("t1")), user(result("t1", None)))),
    ("D11", request(user("hello"), assistant(call("t1")), user(result("t1", [{"type": "text"}])))),
    ("D11", request(user("hello"), assistant(call("t1")), user(result("t1", is_error="yes")))),
    ("D13", request(user("hello"), assistant(call("t1")), user(without(result("t1", is_error=True), "content")))),
    ("D13", request(user("hello"), assistant(call("t1")), user(result("t1", [], is_error=True)))),
    ("D14", request(user("hello"), assistant(call("t1")), user(result("t1", "")))),
    ("D16", request(*PAIR, tools=[])),
    ("D17", request(user("hello"), assistant(call("t1")), user(result("t1", toolset_name="computer")))),
    (
        "D17",
        request(
            user("hello"),
            assistant(call("t1", toolset_name="computer")),
            user(result("t1", [{"type": "tool_reference", "tool_name": "look"}], toolset_name="computer")),
        ),
    ),
    ("D17", request(user("hello"), assistant(call("t1")), user(result("t1", [{"type": "browser_state", "tabs": []}])))),
    ("D18", request(user("hello"), assistant(call("t1")), assistant(call("t2")), user(result("t1"), result("t2")))),
    ("S1", request(user("hello"), assistant(search("s1")), user("go on"), tools=TOOLS)),
    (
        "S1",
        request(
            user("hello"),
            assistant(search("s1"), call("t1")),
            user(result("t1")),
            assistant("done"),
            user("go on"),
            tools=TOOLS,
        ),
    ),
    ("S2b", request(user("hello"), assistant(search("s1")))),
    ("S3", request(user("hello"), assistant(search("s1")), user(result("s1")), tools=TOOLS)),
    ("S3b", request(user("hello"), assistant(found("s1"), search("s1"), "done"), user("go on"), tools=TOOLS)),
    ("E3", request(tools=[tool(input_schema={"type": "string"})])),
    ("E3", request(tools=[tool(input_schema={"type": "object", "anyOf": []})])),
    ("E3", request(tools=[tool(input_schema={"type": "object", "properties": ["a"]})])),
    ("E3", request(tools=[tool(input_schema={"type": "object", "required": "a"})])),
    ("E3", request(tools=["look"])),
    ("E3", request(tools={"look": tool()})),
    (
        "E4",
        request(
            tools=[
                tool(
                    strict=True,
                    input_schema={
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {"a": {"type": "array", "items": {"type": "object"}}},
                    },
                )
            ]
        ),
    ),
    (
        "E4",
        request(
            tools=[
                tool(
                    strict=True,
                    input_schema={
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {"a": {"anyOf": [{"type": "null"}, {"type": "object"}]}},
                    },
                )
            ]
        ),
    ),
    ("E5", request(tool_choice="auto")),
    ("E5", request(tool_choice={"type": "tool", "name": "act"}, model="claude-haiku-5-5")),
    ("E6", request(tool_choice={"type": "any"}, model="scripted")),
    (
        "E6",
        request(
            tool_choice={"type": "any"},
            model=MANUAL_MODEL,
            thinking={"type": "enabled", "budget_tokens": 1024},
            max_tokens=2048,
        ),
    ),
    ("E7", request(tools=[tool(defer_loading=True)])),
    ("F2", request(user("hello"), assistant(without(thought(), "signature"), "hi"), user("go on"))),
    ("F2", request(user("hello"), assistant({**thought(), "signature": ""}, "hi"), user("go on"))),
    ("F2", request(user("hello"), assistant({"type": "redacted_thinking", "data": ""}, "hi"), user("go on"))),
    ("F6", request(thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2048)),
    ("F6", request(thinking={"type": "enabled", "budget_tokens": 1023}, model=MANUAL_MODEL, max_tokens=2048)),
    ("F6", request(thinking={"type": "enabled", "budget_tokens": 2048}, model=MANUAL_MODEL, max_tokens=2048)),
    ("F6", request(thinking={"type": "adaptive"}, model=MANUAL_MODEL)),
    ("F6", request(thinking=None)),
]


def test_other_ways_to_break_a_rule() -> None:
    """A rule with several sides refuses a breach of each of them, possibly along with other rules."""
    passed = [(rule, body) for rule, body in MORE_BREAKS if rule not in broken(body)]

    assert [] == passed


NOT_RULES: dict[str, Json] = {
    "user messages are merged (B4)": request(user("hello"), user("go on")),
    "assistant messages are merged (B4)": request(user("hello"), assistant("hi"), assistant("there"), user("go on")),
    "string content": request() | {"messages": [{"role": "user", "content": "hello"}]},
    "text after results (D15)": request(user("hello"), assistant(call("t1")), user(result("t1"), "go on")),
    "a message after results": request(*PAIR, user("go on")),
    "results in another order than the calls": request(
        user("hello"), assistant(call("t1"), call("t2")), user(result("t2"), result("t1"))
    ),
    "a result without content (D10)": request(
        user("hello"), assistant(call("t1")), user(without(result("t1"), "content"))
    ),
    "a call of a tool no longer in tools": request(user("hello"), assistant(call("t1", "gone")), user(result("t1"))),
    "several thinking blocks": signed_request(
        ("hello",), (thought("a"), thought("b"), call("t1"), thought("c"), call("t2")), (result("t1"), result("t2"))
    ),
    "thinking whose text is empty": signed_request(("hello",), (thought(""), call("t1")), (result("t1"),)),
    "redacted thinking": signed_request(
        ("hello",), (thought(), {"type": "redacted_thinking", "data": "xyz"}, call("t1")), (result("t1"),)
    ),
    "an assistant turn without text": request(*PAIR),
    "a call in another turn after results": request(*PAIR, assistant(call("t2")), user(result("t2"))),
    "a blank string from a tool": request(user("hello"), assistant(call("t1")), user(result("t1", "\n"))),
    "an empty list from a tool": request(user("hello"), assistant(call("t1")), user(result("t1", []))),
    "an error with text": request(user("hello"), assistant(call("t1")), user(result("t1", "no", is_error=True))),
    "an image from a tool": request(user("hello"), assistant(call("t1")), user(result("t1", [IMAGE], is_error=False))),
    "input that looks like keys of blocks": request(
        user("hello"), assistant(call("t1", input={"cache_control": 1, "toolset_name": "x"})), user(result("t1"))
    ),
    "explicit nulls as the API sends them": request(
        user("hello"), assistant(text("hi", citations=None), call("t1", toolset_name=None)), user(result("t1"))
    ),
    "a system message after results": request(*PAIR, system("be brief")),
    "a system message between turns": request(*PAIR, system("be brief"), assistant("ok"), user("go on")),
    "a system message after a server tool's result": request(
        user("hello"),
        assistant(search("s1"), found("s1")),
        system("be brief"),
        assistant("ok"),
        user("go on"),
        tools=TOOLS,
    ),
    "a paused turn sent back": request(user("hello"), assistant("hm", search("s1"), found("s1")), tools=TOOLS),
    "a paused turn with its call pending": request(user("hello"), assistant(search("s1")), tools=TOOLS),
    "a paused turn that only has a server result": request(
        user("hello"),
        assistant(search("s1"), call("t1")),
        user(result("t1")),
        assistant(found("s1"), "so far"),
        tools=TOOLS,
    ),
    "a paused turn continued in a message of its own": request(
        user("hello"), assistant(search("s1")), assistant(found("s1"), "done"), user("go on"), tools=TOOLS
    ),
    "a paused turn that then calls": request(
        user("hello"), assistant(search("s1")), assistant(found("s1"), call("t1")), user(result("t1")), tools=TOOLS
    ),
    "a mixed turn, its server call pending": request(
        user("hello"), assistant(search("s1"), call("t1")), user(result("t1")), tools=TOOLS
    ),
    "a mixed turn, its server call answered later": request(
        user("hello"),
        assistant(search("s1"), call("t1")),
        user(result("t1")),
        assistant(found("s1"), "done"),
        user("go on"),
        tools=TOOLS,
    ),
    "a mixed turn whose server call has its result": request(
        user("hello"), assistant(search("s1"), found("s1"), call("t1")), user(result("t1"), "go on"), tools=TOOLS
    ),
    "a finished server call whose tool is gone": request(
        user("hello"), assistant(search("s1"), found("s1")), user("ok")
    ),
    "any name of a model": request(model="scripted", thinking={"type": "adaptive"}),
    "a Claude without a version": request(model="claude-mythos-preview", tool_choice={"type": "any"}),
    "prefill before it went away": request(user("hello"), assistant("The"), model=MANUAL_MODEL),
    "an empty final prefill before it went away": request(user("hello"), assistant(), model=MANUAL_MODEL),
    "no tools for a plain talk": without(request(), "tools"),
    "streaming": request(stream=True),
    "four markers": request(user(*[text("hello", **cached())] * 4)),
    "unknown keywords in a tool's schema": request(
        tools=[tool(input_schema={"type": "object", "title": "T", "$defs": {}})]
    ),
}


def test_what_is_no_rule_is_not_refused() -> None:
    """What the API accepts, however odd it looks, is accepted here, the disputed rules included."""
    refused = {name: violations for name, body in NOT_RULES.items() if (violations := judge(body, signer=SIGNER))}

    assert {} == refused


def test_only_the_caller_knows_of_a_pause_without_server_tools() -> None:
    """A trailing assistant turn that only the caller knows to be paused passes if the caller says so."""
    body = request(user("hello"), assistant("hm"))

    assert {"B5"} == broken(body)
    assert set() == broken(body, paused=True)


def test_a_pause_does_not_excuse_a_waiting_call() -> None:
    """A paused turn never leaves a client call waiting, so saying that it is paused does not let one through."""
    assert {"B5", "D1"} == broken(request(user("hello"), assistant(call("t1"))), paused=True)


def test_split_results_pass_where_the_dispute_is_left_out() -> None:
    """Results in two user messages are refused under dispute only; the merged turn answers every call."""
    body = request(user("hello"), assistant(call("t1"), call("t2")), user(result("t1")), user(result("t2")))

    assert {"D18"} == broken(body)
    assert set() == broken(body, strict=False)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["", " ", "a", "user", "assistant", "text"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "role", "content"]), inner),
    max_leaves=5,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *[place for key, inner in pairs for place in _places(inner, (*path, key))]]


def _replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    key, *rest = path
    if isinstance(value, dict):
        return {**value, key: _replaced(value[key], tuple(rest), new)}
    return [_replaced(inner, tuple(rest), new) if n == key else inner for n, inner in enumerate(value)]


FULL = signed_request(
    ("hello",),
    (thought(), "hi", call("t1"), search("s1"), found("s1"), {"type": "redacted_thinking", "data": "x"}, call("t2")),
    (result("t1", [text("a") | cached()]), result("t2", "no", is_error=True)),
    ("done",),
    ("go on",),
    tools=[tool(strict=False), tool("late", defer_loading=True), web_search()],
    tool_choice={"type": "auto"},
    system=[text("be brief")],
    thinking={"type": "adaptive"},
)
FULL_PLACES = [place for place in _places(FULL) if place]


@settings(max_examples=150, deadline=None)
@given(place=st.sampled_from(FULL_PLACES), new=json_values)
def test_judging_never_raises(place: tuple[Any, ...], new: Any) -> None:
    """Whatever stands anywhere in a request, the judge answers with violations, never with an exception."""
    judge(_replaced(FULL, place, new), signer=SIGNER)


def test_a_body_nested_without_end_is_refused() -> None:
    """A body too deep to be written as JSON is refused like any other that cannot be sent."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    assert broken(request(user("hello"), assistant(call("t1", input={"deep": deep})), user(result("t1")))) == {"A9"}


@pytest.mark.parametrize("body", [None, [], "hello", 3])
def test_a_body_that_is_no_object_is_refused(body: Any) -> None:
    """A body that is no object at all lacks everything that is required."""
    assert "A1" in broken(body)


def test_a_full_request_passes() -> None:
    """The request that is damaged in the test above passes before it is damaged."""
    assert judge(FULL, signer=SIGNER) == []


def test_judging_needs_no_heavy_imports() -> None:
    """The judge is loaded by a server that forks: it must not drag in the test tools or the SDK."""
    code = "import crashtests.api, sys; print([m for m in ('pytest', 'hypothesis', 'anthropic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
