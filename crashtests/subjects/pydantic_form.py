"""The suite's script and tools in pydantic-ai's form: a `FunctionModel` and tools, for every subject built on it.

Parts are turned into blocks of the Messages API one by one, with their calls and results as they are: what is unpaired
here is unpaired there. Everything that pydantic-ai sends in one request to the model is one user message.
"""

# No `from __future__ import annotations`: pydantic-ai reads the types of a tool's parameters.

from collections.abc import Callable
from typing import Any

from crashtests.scripted import ApiRefused, ScriptedModel
from crashtests.subjects.dbos_steps import Refused
from crashtests.world import WorldTool


def model(scripted: ScriptedModel) -> Any:
    """A pydantic-ai model that answers by the script."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages: Any, info: Any) -> Any:
        tools = [
            {"name": tool.name, "description": tool.description, "input_schema": {"type": "object"}}
            for tool in info.function_tools
        ]
        request = {"model": "scripted", "max_tokens": 1000, "messages": to_api(messages), "tools": tools}
        try:
            content = scripted.ask(request)["content"]
        except ApiRefused as refused:
            raise Refused(str(refused)) from None
        return ModelResponse(
            parts=[
                ToolCallPart(tool_name=block["name"], args=block["input"], tool_call_id=block["id"])
                if block["type"] == "tool_use"
                else TextPart(content=block["text"])
                for block in content
            ]
        )

    return FunctionModel(answer, model_name="scripted")


def tool(tool: WorldTool, wrap: Callable[[Callable[[str], str]], Callable[[str], str]] = lambda run: run) -> Any:
    """A tool of the world as a pydantic-ai tool. `wrap`: what is made of the function that does its work."""
    from pydantic_ai import RunContext, Tool

    def work(tool_use_id: str) -> str:
        return str(tool.run(tool_use_id))

    work.__qualname__ = work.__name__ = tool.name  # by which a step is known
    wrapped = wrap(work)

    def run(context: RunContext, amount: int) -> str:
        return wrapped(str(context.tool_call_id))

    return Tool(run, name=tool.name, description=tool.description)


def to_api(messages: Any) -> list[dict[str, Any]]:
    """pydantic-ai messages as those of the Messages API."""
    api: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.kind == "response" else "user"
        blocks = [block for part in message.parts if (block := _block(part))]
        # Results first: the API wants them before any text, and their place in a request says nothing here.
        blocks.sort(key=lambda block: block["type"] != "tool_result" if role == "user" else False)
        if api and api[-1]["role"] == role:
            api[-1]["content"] += blocks
        else:
            api.append({"role": role, "content": blocks})
    return api


def _block(part: Any) -> dict[str, Any] | None:
    if part.part_kind == "tool-call":
        return {"type": "tool_use", "id": part.tool_call_id, "name": part.tool_name, "input": part.args_as_dict()}
    if part.part_kind == "tool-return":
        result = {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": part.model_response_str()}
        return result | ({} if part.outcome == "success" else {"is_error": True})
    if part.part_kind == "retry-prompt" and part.tool_name:
        content = part.model_response()
        return {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": content, "is_error": True}
    return {"type": "text", "text": str(part.content)} if getattr(part, "content", None) else None
