"""The anthropic SDK's own tool runner, with the conversation written to a file after each turn.

The runner keeps the conversation in memory and, as a thread, at the API; to save it one iterates over it, a turn at a
time: https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-runner . Resumed with a new runner over what
was saved. Tools of the runner are not told the id of their call, so the script names its step.
"""

# No `from __future__ import annotations`: the SDK reads the types of a tool's parameters.

import json
import os
from typing import Any, ClassVar

from crashtests.scripted import ScriptedModel
from crashtests.subject import Ending, Life, Subject
from crashtests.wire import client
from crashtests.world import WorldTool


class ToolRunner(Subject):
    """`client.beta.messages.tool_runner`, turn by turn."""

    name = "anthropic SDK, tool runner"
    packages: ClassVar = ("anthropic",)
    names_steps = True
    understands = frozenset({"read", "put", "pay", "text"})

    def prepare(self) -> None:
        import anthropic  # noqa: F401  # imported before the fork, so that no life has to

    def live(self, life: Life) -> Ending:
        import anthropic

        path = life.state_dir / "messages.json"
        if life.resume and not path.exists():
            return Ending("missing", "there are no messages")
        messages = json.loads(path.read_text()) if life.resume else [{"role": "user", "content": life.task}]
        if messages[-1]["role"] == "assistant":
            return Ending("done")
        life.state_dir.mkdir(exist_ok=True)
        runner = client(_Threads(life.model)).beta.messages.tool_runner(
            model="scripted", max_tokens=1000, messages=list(messages), tools=[_tool(tool) for tool in life.tools]
        )
        try:
            for message in runner:
                messages.append({"role": "assistant", "content": [block.to_dict() for block in message.content]})
                results = runner.generate_tool_call_response()
                messages += [results] if results else []
                temporary = path.with_suffix(".tmp")
                temporary.write_text(json.dumps(messages))
                os.replace(temporary, path)
        except anthropic.APIStatusError as refused:
            return Ending("stopped", str(refused))
        return Ending("done")


class _Threads:
    """The API's message threads (a beta): a request that continues one holds only what is new or has changed."""

    def __init__(self, scripted: ScriptedModel) -> None:
        self._scripted = scripted
        self._threads: dict[str, dict[str, Any]] = {}

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        thread = request.pop("thread", {"type": "create"})
        before = self._threads[thread["previous_message_id"]] if thread["type"] == "continue" else {"messages": []}
        whole = before | request | {"messages": before["messages"] + request["messages"]}
        response = self._scripted.ask(whole)
        said = {"role": "assistant", "content": response["content"]}
        self._threads[response["id"]] = whole | {"messages": [*whole["messages"], said]}
        return response


def _tool(tool: WorldTool) -> Any:
    from anthropic import beta_tool

    def run(amount: int, step: str) -> str:
        return str(tool.run_step(step))

    return beta_tool(run, name=tool.name, description=tool.description)
