"""Tools: what may be offered to the model, and what a running one can learn about its call."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest

from crashtests.unit.world import SCHEMA
from harness import Effect, Tool, UsageError, current_tool_use_id
from harness.tool import running, tools_by_name


def run(arguments: dict[str, Any]) -> str:
    return "ran"


async def run_async(arguments: dict[str, Any]) -> str:
    return "ran"


class AsyncCallable:
    """An object that is called like an async function."""

    async def __call__(self, arguments: dict[str, Any]) -> str:
        return "ran"


def tool(**changes: Any) -> Tool:
    fields: dict[str, Any] = {"name": "act", "description": "Acts.", "input_schema": SCHEMA, "run": run}
    return Tool(**(fields | changes))


class FakeSdkTool:
    """What the SDK's decorator makes, as far as it is used."""

    def __init__(self, name: str = "act", definition: dict[str, Any] | None = None) -> None:
        self.name = name
        plain = {"name": name, "description": "Acts.", "input_schema": {"type": "object", "title": "Act"}}
        self._definition = definition or plain | {"strict": True}

    def to_dict(self) -> dict[str, Any]:
        return self._definition

    def call(self, arguments: Any, /) -> str:
        return f"called with {arguments}"


def test_a_tool_is_a_side_effect_unless_it_says_otherwise() -> None:
    """The default is the class that nobody regrets, and the definition holds what the API needs, no more."""
    act = tool()

    assert Effect.SIDE_EFFECT is act.effect
    assert {"name": "act", "description": "Acts.", "input_schema": SCHEMA} == act.definition


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": ""}, "tool name ''"),
        ({"name": "two words"}, "tool name 'two words'"),
        ({"name": "act\n"}, "tool name 'act\\n'"),
        ({"name": "n" * 65}, "tool name 'nnn"),
        ({"name": None}, "tool name None"),
        ({"description": None}, "description"),
        ({"input_schema": {}}, "type 'object'"),
        ({"input_schema": {"type": "array"}}, "type 'object'"),
        ({"input_schema": None}, "type 'object'"),
        ({"input_schema": {"type": "object", "oneOf": []}}, "oneOf"),
        ({"input_schema": {"type": "object", "default": math.nan}}, "is not JSON"),
        ({"input_schema": {"type": "object", "default": {1, 2}}}, "is not JSON"),
        ({"description": "a\ud800"}, "is not JSON"),
        ({"run": "ran"}, "'ran' is not a function"),
        ({"run": None}, "None is not a function"),
        ({"verify": "yes"}, "'yes' is not a function"),
        ({"run": run_async}, "is async"),
        ({"run": functools.partial(run_async)}, "is async"),
        ({"run": AsyncCallable()}, "is async"),
        ({"verify": run_async}, "is async"),
        ({"effect": "side_effect"}, "effect='side_effect' is none of"),
        ({"effect": None}, "effect=None is none of"),
        ({"definition": {"name": "other", "description": "", "input_schema": SCHEMA}}, "'other'"),
    ],
    ids=range(23),
)
def test_a_definition_the_api_would_refuse_is_refused(changes: dict[str, Any], problem: str) -> None:
    """A bad tool is found when it is made, not when the model is asked, and the error names it."""
    with pytest.raises(UsageError) as caught:
        tool(**changes)

    assert problem in str(caught.value)


def test_the_definition_does_not_follow_the_callers_dict() -> None:
    """What a tool is cannot change behind its back."""
    schema: dict[str, Any] = {"type": "object"}
    act = tool(input_schema=schema)
    schema["type"] = "array"

    assert {"type": "object"} == act.definition["input_schema"]


def test_an_sdk_tool_keeps_its_definition_whole() -> None:
    """What the SDK's decorator made goes to the API unchanged, with the effect class given beside it."""
    sdk_tool = FakeSdkTool()
    act = Tool.from_sdk(sdk_tool, effect=Effect.READ_ONLY)

    assert (sdk_tool.to_dict(), Effect.READ_ONLY) == (act.definition, act.effect)
    assert "called with {'a': 1}" == act.run({"a": 1})


def test_an_sdk_tool_with_a_bad_definition_is_refused() -> None:
    """The same checks hold for definitions that somebody else made."""
    with pytest.raises(UsageError, match="input_schema"):
        Tool.from_sdk(FakeSdkTool(definition={"name": "act", "type": "computer_20251124"}))


def test_tools_are_found_by_name() -> None:
    """The index holds every tool once, in the order given."""
    one, two = tool(name="one"), tool(name="two")

    assert [("one", one), ("two", two)] == list(tools_by_name([one, two]).items())


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ([tool(), tool(description="Another.")], "two tools are named 'act'"),
        ([FakeSdkTool()], "Tool.from_sdk"),
        ([run], "is not a harness.Tool"),
    ],
    ids=["same name", "sdk tool", "function"],
)
def test_a_list_of_tools_that_cannot_be_offered_is_refused(tools: list[Any], problem: str) -> None:
    """Names are unique, and what is no `Tool` is told how to become one."""
    with pytest.raises(UsageError, match=problem):
        tools_by_name(tools)


def test_a_running_tool_knows_its_call() -> None:
    """The id is there while the tool runs, also in a nested run, and gone afterwards."""
    with running("outer"):
        with running("inner"):
            inner = current_tool_use_id()
        outer = current_tool_use_id()

    assert ("inner", "outer") == (inner, outer)
    with pytest.raises(UsageError, match="no tool is running"):
        current_tool_use_id()


def test_a_tool_that_raises_leaves_no_id_behind() -> None:
    """Nobody inherits the id of a call that failed."""
    with pytest.raises(KeyboardInterrupt), running("t1"):
        raise KeyboardInterrupt

    with pytest.raises(UsageError):
        current_tool_use_id()
