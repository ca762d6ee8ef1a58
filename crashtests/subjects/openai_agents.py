"""The OpenAI Agents SDK with a `SQLiteSession`: `Runner.run` saves the conversation in the session and reads it back.

Resumed by running the agent again with the same session and no new input, which continues what is stored there:
https://openai.github.io/openai-agents-python/sessions/ . For runs that must survive a restart its documentation points
to the integrations with Temporal, Restate and DBOS: https://openai.github.io/openai-agents-python/running_agents/ .
"""

# No `from __future__ import annotations`: the SDK reads the types of a tool's parameters.

import asyncio
import json
from typing import Any, ClassVar

from crashtests.scripted import ApiRefused, ScriptedModel
from crashtests.subject import Ending, Life, Subject
from crashtests.world import WorldTool

_DOCS = "https://openai.github.io/openai-agents-python/running_agents/"


class Session(Subject):
    """One agent, its tools as function tools, its conversation in SQLite."""

    name = "OpenAI Agents SDK, SQLiteSession"
    environment = "openai-agents"
    life_timeout_s = 30.0
    understands = frozenset({"read", "put", "pay", "text"})
    persistence: ClassVar = {"add-items": "agents.memory.sqlite_session:SQLiteSession.add_items"}
    documents: ClassVar = {
        "AT-MOST-ONCE": f"a session is a memory of the conversation; durable runs need an integration ({_DOCS})"
    }

    def prepare(self) -> None:
        import agents
        import openai.types.responses  # noqa: F401  # imported before the fork, so that no life has to

        agents.set_tracing_disabled(True)

    def live(self, life: Life) -> Ending:
        return asyncio.run(self._live(life))

    async def _live(self, life: Life) -> Ending:
        from agents import Agent, Runner, SQLiteSession

        life.state_dir.mkdir(exist_ok=True)
        session = SQLiteSession("1", life.state_dir / "session.sqlite")
        stored = await session.get_items()
        if life.resume and not stored:
            return Ending("missing", "the session is empty")
        if life.resume and stored[-1].get("type") == "message" and stored[-1].get("role") == "assistant":
            return Ending("done")
        agent = Agent(name="agent", tools=[_tool(tool) for tool in life.tools], model=_model(life.model))
        try:
            await Runner.run(agent, [] if life.resume else life.task, session=session)
        except ApiRefused as refused:
            return Ending("stopped", str(refused))
        return Ending("done")


def _tool(tool: WorldTool) -> Any:
    from agents import function_tool
    from agents.tool_context import ToolContext

    def run(context: ToolContext[Any], amount: int) -> str:
        return str(tool.run(context.tool_call_id))

    return function_tool(run, name_override=tool.name, description_override=tool.description)


def _model(scripted: ScriptedModel) -> Any:
    """The scripted model as an agents `Model`."""
    from agents import Model, ModelResponse, Usage
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    def item(block: dict[str, Any], at: int) -> Any:
        if block["type"] == "tool_use":
            return ResponseFunctionToolCall(
                type="function_call", call_id=block["id"], name=block["name"], arguments=json.dumps(block["input"])
            )
        text = ResponseOutputText(type="output_text", text=block["text"], annotations=[])
        return ResponseOutputMessage(id=f"m{at}", type="message", role="assistant", status="completed", content=[text])

    class Scripted(Model):  # type: ignore[misc]  # not there where types are checked
        async def get_response(self, system_instructions: Any, input: Any, *_: Any, tools: Any, **__: Any) -> Any:
            specs = [{"name": t.name, "description": t.name, "input_schema": {"type": "object"}} for t in tools]
            request = {"model": "scripted", "max_tokens": 1000, "messages": _to_api(input), "tools": specs}
            content = scripted.ask(request)["content"]
            return ModelResponse(output=[item(b, at) for at, b in enumerate(content)], usage=Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    return Scripted()


def _to_api(items: Any) -> list[dict[str, Any]]:
    """Items of the Responses API as messages of the Messages API: neighbours of one role are one message."""
    api: list[dict[str, Any]] = []
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        role, blocks = _blocks(item)
        if api and api[-1]["role"] == role:
            api[-1]["content"] += blocks
        else:
            api.append({"role": role, "content": blocks})
    return api


def _blocks(item: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    if item.get("type") == "function_call":
        call = {"id": item["call_id"], "name": item["name"], "input": json.loads(item["arguments"])}
        return "assistant", [{"type": "tool_use", **call}]
    if item.get("type") == "function_call_output":
        return "user", [{"type": "tool_result", "tool_use_id": item["call_id"], "content": item["output"]}]
    content = item["content"]
    texts = [content] if isinstance(content, str) else [part["text"] for part in content]
    return item["role"], [{"type": "text", "text": text} for text in texts]
