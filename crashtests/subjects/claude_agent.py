"""The Claude Agent SDK: its bundled command line, which holds the loop and the session, and tools in this process.

The command line speaks to a Messages API on loopback, streaming. Resumed with `continue_conversation`, the most recent
session of the directory, and a prompt to go on: https://code.claude.com/docs/en/agent-sdk/sessions .

A kill takes this process, the host, and whatever it has started right behind it, so host and command line die together;
with `@host` behind it the command line lives on, and so does the API that it speaks to.
What the command line adds of its own for the model (reminders, and the text around a result) is left out where
conversations are compared. Its tools are not told the id of their call, so the script names its step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

from crashtests.schedule import Kill
from crashtests.scripted import MODEL_ANSWERED, ScriptedModel
from crashtests.subject import Ending, Life, Subject
from crashtests.wire import serving
from crashtests.world import TOOL_RETURNED, WorldTool

_PREFIX = "mcp__world__"
_GO_ON = "Go on."
# What the command line itself says for the model where a session was cut off.
_FOR_THE_MODEL = "No response requested."


class ClaudeAgent(Subject):
    """One `query` a life."""

    name = "Claude Agent SDK, continue_conversation"
    environment = "claude-agent"
    understands = frozenset({"read", "put", "pay", "text"})
    names_steps = True
    starts_processes = True
    races = True  # the command line saves a session when it finds the time
    delayed = (Kill(MODEL_ANSWERED), Kill(TOOL_RETURNED))  # the command line is a closed binary
    slow = True
    life_timeout_s = 60.0
    unjudged: ClassVar = {"SAME-END": "to resume it is to add a message, so the conversation is another"}

    def prepare(self) -> None:
        import claude_agent_sdk  # noqa: F401  # imported before the fork, so that no life has to

    def live(self, life: Life) -> Ending:
        life.state_dir.mkdir(exist_ok=True)
        sessions = list(life.state_dir.glob("config/projects/*/*.jsonl"))
        if life.resume and not sessions:
            return Ending("missing", "there is no session")
        finished = life.state_dir / "finished"  # a caller who was told of the end asks no more
        if finished.exists():
            return Ending("done")
        with serving(_Plain(life.model, life.tools), heir=_heir(life)) as address:
            ending = asyncio.run(_live(life, address))
        if ending.status == "done":
            finished.touch()
        return ending


def _heir(life: Life) -> Callable[[], _Plain] | None:
    """Where the host is to be killed alone, the API that the command line then still speaks to."""
    alone = any(kill.alone for kill in life.schedule.deaths)
    return (lambda: _Plain(life.model.afresh(), life.tools)) if alone else None


async def _live(life: Life, address: str) -> Ending:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKError, ResultMessage, create_sdk_mcp_server, query

    options = ClaudeAgentOptions(
        mcp_servers={"world": create_sdk_mcp_server("world", tools=[_tool(tool) for tool in life.tools])},
        allowed_tools=[_PREFIX + tool.name for tool in life.tools],
        model="scripted",
        cwd=life.state_dir,
        continue_conversation=life.resume,
        env={
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CONFIG_DIR": str(life.state_dir / "config"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    )
    ending = Ending("stopped", "the command line said nothing of its end")
    try:
        async for message in query(prompt=_GO_ON if life.resume else life.task, options=options):
            if isinstance(message, ResultMessage):
                ending = Ending("stopped", str(message.result)) if message.is_error else Ending("done")
    except ClaudeSDKError as error:
        return Ending("stopped", str(error))
    return ending


def _tool(world_tool: WorldTool) -> Any:
    from claude_agent_sdk import tool

    @tool(world_tool.name, world_tool.description, {"amount": int, "step": str})
    async def run(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(world_tool.run_step(given["step"]))}]}

    return run


class _Plain:
    """The scripted model for a command line that says more than the conversation: only that is judged, and answered."""

    def __init__(self, scripted: ScriptedModel, tools: list[WorldTool]) -> None:
        self._scripted = scripted
        self._tools = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools
        ]

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        messages = [
            {"role": message["role"], "content": [plain for block in _blocks(message) if (plain := _plain(block))]}
            for message in request["messages"]
            if message["role"] != "system"
        ]
        plain = {"model": request["model"], "max_tokens": 1000, "tools": self._tools}
        response = self._scripted.ask(plain | {"messages": [m for m in messages if m["content"]]})
        content = [b | ({"name": _PREFIX + b["name"]} if b["type"] == "tool_use" else {}) for b in response["content"]]
        return response | {"content": content}


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _plain(block: dict[str, Any]) -> dict[str, Any] | None:
    if block["type"] == "tool_use":
        return {key: block[key] for key in ("type", "id", "input")} | {"name": block["name"].removeprefix(_PREFIX)}
    if block["type"] == "tool_result":
        content = block.get("content", "")
        texts = [content] if isinstance(content, str) else [part["text"] for part in content if "text" in part]
        said = "".join(text for text in texts if not _is_added(text)).strip()
        result = {"type": "tool_result", "tool_use_id": block["tool_use_id"], "content": said}
        return result | ({"is_error": True} if block.get("is_error") else {})
    if block["type"] == "text" and not _is_added(block["text"]):
        return {"type": "text", "text": block["text"]}
    return None


def _is_added(text: str) -> bool:
    return text.lstrip().startswith("<system-reminder>") or text == _FOR_THE_MODEL
