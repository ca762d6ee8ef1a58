"""LangGraph's graph API: a model node and a `ToolNode` in a loop, with the SQLite checkpointer, in each durability.

Started with `invoke(input, config)` and resumed with `invoke(None, config)` on the same thread, as documented:
https://docs.langchain.com/oss/python/langgraph/durable-execution ("Resuming workflows"); durability modes on the same
page, of which "async" is the default.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any, ClassVar

from crashtests.scripted import ApiRefused
from crashtests.subject import Ending, Life, Subject
from crashtests.subjects.langchain_form import chat_model, structured

_DOCS = "https://docs.langchain.com/oss/python/langgraph/durable-execution"


class Graph(Subject):
    """The graph, with checkpoints written in the background while the next step runs: the default."""

    name = "LangGraph, StateGraph, durability=async"
    environment = "langgraph"
    packages: ClassVar[tuple[str, ...]] = ("langgraph", "langgraph-checkpoint-sqlite")
    life_timeout_s = 30.0
    understands = frozenset({"read", "put", "pay", "text"})
    races = True
    parallel = True
    durability: ClassVar[str] = "async"
    persistence: ClassVar = {
        "checkpoint": "langgraph.checkpoint.sqlite:SqliteSaver.put",
        "writes": "langgraph.checkpoint.sqlite:SqliteSaver.put_writes",
    }
    documents: ClassVar = {
        "AT-MOST-ONCE": f"side effects should be idempotent, since a node that was cut short runs again ({_DOCS})"
    }

    def prepare(self) -> None:
        import langchain_core.language_models.chat_models  # noqa: F401
        import langgraph.checkpoint.sqlite
        import langgraph.graph
        import langgraph.prebuilt  # noqa: F401  # imported before the fork, so that no life has to

    def live(self, life: Life) -> Ending:
        from langgraph.checkpoint.sqlite import SqliteSaver

        life.state_dir.mkdir(exist_ok=True)
        database = str(life.state_dir / "checkpoints.sqlite")
        config = {"configurable": {"thread_id": "1"}}
        with closing(sqlite3.connect(database, check_same_thread=False)) as connection:
            saver = SqliteSaver(connection)
            if life.resume and saver.get_tuple(config) is None:
                return Ending("missing", "the thread has no checkpoint")
            graph = self.graph(life, saver)
            start = None if life.resume else {"messages": [{"role": "user", "content": life.task}]}
            try:
                graph.invoke(start, config, durability=self.durability)
            except ApiRefused as refused:
                return Ending("stopped", str(refused))
        return Ending("done")

    def graph(self, life: Life, saver: Any) -> Any:
        """What is invoked: the compiled graph."""
        from langgraph.prebuilt import ToolNode

        tools = [structured(tool) for tool in life.tools]
        return loop(chat_model(life.model).bind_tools(tools), ToolNode(tools), saver)


def loop(model: Any, tool_node: Any, saver: Any) -> Any:
    """The documented agent: a model, its tools, and the way back, for as long as it calls any."""
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import tools_condition

    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_node("tools", tool_node)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


class Sync(Graph):
    """Every checkpoint is written before the next step starts: the safest setting."""

    name = "LangGraph, StateGraph, durability=sync"
    races = False
    durability = "sync"


class Exit(Graph):
    """A checkpoint is written when the graph exits."""

    name = "LangGraph, StateGraph, durability=exit"
    races = False
    durability = "exit"
    persistence: ClassVar = {"checkpoint": "langgraph.checkpoint.sqlite:SqliteSaver.put"}  # it saves nothing else
    documents: ClassVar = Graph.documents | {
        "SESSION-KEPT": f"intermediate state is not saved, so there is no recovery from a failure in between ({_DOCS})"
    }
