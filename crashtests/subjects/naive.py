"""The loop that most people write: messages dumped to JSON after each turn. The subject known to be broken.

It has no point A and no ledger, so a process killed in a turn asks the model again and runs its tools again. Every
campaign that judges it must find that, with one turn and one kill.
"""

from __future__ import annotations

import json
import os
from typing import Any

from crashtests.scripted import ApiRefused
from crashtests.subject import Ending, Life, Subject


class Naive(Subject):
    """Ask, run the tools, save; on resume, load and go on."""

    name = "naive loop"
    understands = frozenset({"read", "put", "pay", "mail", "deny", "bounce", "thinking", "redacted", "text"})

    def live(self, life: Life) -> Ending:
        path = life.state_dir / "messages.json"
        if life.resume and not path.exists():
            return Ending("missing", "there are no messages")
        if not life.resume:
            path.unlink(missing_ok=True)
        messages = json.loads(path.read_text()) if life.resume else [{"role": "user", "content": life.task}]
        if messages[-1]["role"] == "assistant":
            return Ending("done")
        tools = {tool.name: tool for tool in life.tools}
        definitions = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
            for tool in life.tools
        ]
        while True:
            request = {"model": life.model.name, "max_tokens": 1000, "messages": messages}
            if definitions or life.server_tools:
                request["tools"] = definitions + life.server_tools
            try:
                response = life.model.ask(request)
            except ApiRefused as refused:
                return Ending("stopped", str(refused))
            messages.append({"role": "assistant", "content": response["content"]})
            calls = [block for block in response["content"] if block["type"] == "tool_use"]
            if calls:
                messages.append({"role": "user", "content": [_result(tools, call) for call in calls]})
            life.state_dir.mkdir(exist_ok=True)
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps(messages))
            os.replace(temporary, path)
            if not calls:
                return Ending("done")


def _result(tools: dict[str, Any], call: dict[str, Any]) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": call["id"]}
    try:
        return result | {"content": str(tools[call["name"]].run(call["id"])) or "(nothing)"}
    except Exception as error:
        return result | {"content": repr(error), "is_error": True}
