"""Messages in each framework's form, as those of the Messages API: what is unpaired there is unpaired here.

The forms are stood for by plain objects with the same attributes, so that no framework is needed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crashtests.api import judge
from crashtests.subjects import claude_agent, langchain_form, openai_agents, pydantic_form

CALL = {"type": "tool_use", "id": "c1", "name": "pay", "input": {"amount": 5}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "paid"}
TASK = {"role": "user", "content": [{"type": "text", "text": "Go."}]}
PAIRED = [TASK, {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [RESULT]}]
TOOLS = [{"name": "pay", "description": "Pays.", "input_schema": {"type": "object"}}]


def langchain(*kinds: str) -> Any:
    """A conversation of these messages in LangChain's form."""
    call = {"id": "c1", "name": "pay", "args": {"amount": 5}}
    made = {
        "task": SimpleNamespace(type="human", content=[{"type": "text", "text": "Go."}]),
        "call": SimpleNamespace(type="ai", content="", tool_calls=[call]),
        "result": SimpleNamespace(type="tool", content="paid", tool_call_id="c1", status="success"),
        "error": SimpleNamespace(type="tool", content="paid", tool_call_id="c1", status="error"),
    }
    return langchain_form.to_api([made[kind] for kind in kinds])


def openai(*kinds: str) -> Any:
    """The same as items of the Responses API; it has no results that are errors."""
    made = {
        "task": {"role": "user", "content": "Go."},
        "call": {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": '{"amount": 5}'},
        "result": {"type": "function_call_output", "call_id": "c1", "output": "paid"},
    }
    return openai_agents._to_api([made[kind] for kind in kinds])


def pydantic(*kinds: str) -> Any:
    """The same as pydantic-ai's messages, each of one part."""
    arguments = SimpleNamespace(args_as_dict=lambda: {"amount": 5})
    made = {
        "task": ("request", SimpleNamespace(part_kind="user-prompt", content="Go.")),
        "call": (
            "response",
            SimpleNamespace(
                part_kind="tool-call", tool_call_id="c1", tool_name="pay", args_as_dict=arguments.args_as_dict
            ),
        ),
        "result": ("request", returned("success")),
        "error": ("request", returned("interrupted")),
    }
    return pydantic_form.to_api([SimpleNamespace(kind=made[kind][0], parts=[made[kind][1]]) for kind in kinds])


def returned(outcome: str) -> Any:
    """A tool's return in pydantic-ai's form."""
    return SimpleNamespace(
        part_kind="tool-return", tool_call_id="c1", outcome=outcome, model_response_str=lambda: "paid"
    )


FORMS = [langchain, openai, pydantic]


@pytest.mark.parametrize("form", FORMS)
def test_paired(form: Any) -> None:
    """A whole conversation, message for message."""
    assert PAIRED == form("task", "call", "result")
    assert [] == judge({"model": "m", "max_tokens": 1, "tools": TOOLS, "messages": form("task", "call", "result")})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("kinds", "rule"),
    [(("task", "call", "task"), "D1"), (("task", "result"), "D4"), (("task", "call", "result", "result"), "D5")],
)
def test_unpaired(form: Any, kinds: tuple[str, ...], rule: str) -> None:
    """A call without its result, a result without its call, and two results: each is refused as it would be."""
    request = {"model": "m", "max_tokens": 1, "tools": TOOLS, "messages": form(*kinds)}

    assert rule in [violation.rule for violation in judge(request)]


@pytest.mark.parametrize("form", FORMS)
def test_results_in_a_row(form: Any) -> None:
    """Results of calls that were made at once are one user message, as the API wants them."""
    assert [{"role": "user", "content": [RESULT, RESULT]}] == form("task", "call", "result", "result")[2:]


@pytest.mark.parametrize("form", [langchain, pydantic])
def test_errors(form: Any) -> None:
    """A result that the framework marks as an error is one."""
    assert [RESULT | {"is_error": True}] == form("task", "call", "error")[-1]["content"]


def test_what_the_command_line_adds() -> None:
    """The Claude command line's own words are left out, and its names of tools; a conversation stays what it is."""

    class Scripted:
        asked: Any = None

        def ask(self, request: Any) -> Any:
            self.asked = request
            return {"content": [CALL, {"type": "text", "text": "Done."}]}

    scripted = Scripted()
    model: Any = scripted
    reminder = {"type": "text", "text": "<system-reminder>\nof something"}
    told = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "paid\n"}, reminder]}

    answer = claude_agent._Plain(model, []).ask(
        {
            "model": "m",
            "thinking": {"type": "adaptive"},
            "messages": [
                {"role": "user", "content": [reminder, {"type": "text", "text": "Go."}]},
                {"role": "system", "content": "# Environment"},
                {"role": "assistant", "content": [{**CALL, "name": "mcp__world__pay"}]},
                {"role": "user", "content": [told]},
                {"role": "assistant", "content": "No response requested."},
            ],
        }
    )

    assert PAIRED == scripted.asked["messages"]
    assert ["mcp__world__pay", None] == [block.get("name") for block in answer["content"]]
