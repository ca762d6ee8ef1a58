"""The best recipe for LangGraph that one can install: durability=sync, a ledger of effects, and errors told the model.

Each tool that changes the world runs through `once.execute` under the id of its call, so that it runs at most once; a
call whose outcome was never recorded raises, and `ToolNode(handle_tool_errors=True)` tells the model so. The ledger is
agent-once: https://frogscooper.dev/once/ (states: "pending: claimed, running now, or the owner died").
"""

from __future__ import annotations

from typing import Any, ClassVar

from crashtests.subject import Life
from crashtests.subjects.langchain_form import chat_model, structured
from crashtests.subjects.langgraph_graph import Sync, loop
from crashtests.world import WorldTool


class Recipe(Sync):
    """The graph with a ledger beside its checkpoints."""

    name = "LangGraph, best recipe: sync, agent-once, handle_tool_errors"
    packages = (*Sync.packages, "agent-once")
    documents: ClassVar = {}
    persistence: ClassVar = Sync.persistence | {
        "claim": "once.store:SQLiteStore.claim",
        "finish": "once.store:SQLiteStore.finish",
    }

    def prepare(self) -> None:
        super().prepare()
        import once  # noqa: F401  # imported before the fork, so that no life has to

    def graph(self, life: Life, saver: Any) -> Any:
        from langgraph.prebuilt import ToolNode
        from once import Once

        ledger = Once(str(life.state_dir / "once.sqlite"))

        def work(tool: WorldTool, tool_use_id: str) -> Any:
            if tool.kind.effect != "side_effect":
                return tool.run(tool_use_id)
            return ledger.execute(lambda: str(tool.run(tool_use_id)), key=tool_use_id, tool_name=tool.name)

        tools = [structured(tool, work) for tool in life.tools]
        return loop(chat_model(life.model).bind_tools(tools), ToolNode(tools, handle_tool_errors=True), saver)
