"""The suite's script and tools in LangChain's form: a chat model and structured tools, for every LangGraph subject.

Messages are turned into those of the Messages API one by one, with their calls and results as they are: what is
unpaired here is unpaired there. Results in a row are one user message, as an Anthropic chat model would send them.
"""

# No `from __future__ import annotations`: LangChain reads the types of a tool's parameters.

from collections.abc import Callable
from typing import Annotated, Any

from crashtests.scripted import ScriptedModel
from crashtests.world import WorldTool


def chat_model(scripted: ScriptedModel) -> Any:
    """A LangChain chat model that answers by the script."""
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Scripted(BaseChatModel):  # type: ignore[misc]  # not there where types are checked
        tools: list[Any] = []  # noqa: RUF012  # a field of a pydantic model

        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self.model_copy(update={"tools": list(tools)})

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
            tools = [
                {"name": t.name, "description": t.description, "input_schema": {"type": "object"}} for t in self.tools
            ]
            request = {"model": "scripted", "max_tokens": 1000, "messages": to_api(messages), "tools": tools}
            content = scripted.ask(request)["content"]
            message = AIMessage(
                content="".join(block["text"] for block in content if block["type"] == "text"),
                tool_calls=[
                    {"name": block["name"], "args": block["input"], "id": block["id"], "type": "tool_call"}
                    for block in content
                    if block["type"] == "tool_use"
                ],
            )
            return ChatResult(generations=[ChatGeneration(message=message)])

    return Scripted()


def to_api(messages: Any) -> list[dict[str, Any]]:
    """LangChain messages as those of the Messages API."""
    api: list[dict[str, Any]] = []
    for message in messages:
        if message.type == "ai":
            text = [{"type": "text", "text": message.content}] if message.content else []
            calls = [
                {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}
                for call in message.tool_calls
            ]
            api.append({"role": "assistant", "content": text + calls})
        elif message.type == "tool":
            result = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}
            result |= {"is_error": True} if message.status == "error" else {}
            if api and api[-1]["role"] == "user" and isinstance(api[-1]["content"], list):
                api[-1]["content"].append(result)
            else:
                api.append({"role": "user", "content": [result]})
        else:
            api.append({"role": "user", "content": message.content})
    return api


def structured(tool: WorldTool, work: Callable[[WorldTool, str], Any] = WorldTool.run) -> Any:
    """A tool of the world as a LangChain tool, which is told the id of its call. `work`: what it does then."""
    from langchain_core.tools import InjectedToolCallId, StructuredTool

    def run(amount: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
        return str(work(tool, tool_call_id))

    return StructuredTool.from_function(run, name=tool.name, description=tool.description)
