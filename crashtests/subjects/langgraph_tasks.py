"""LangGraph's functional API: the loop an `@entrypoint`, each request to the model and each call of a tool a `@task`.

What a task returned is saved, and the entrypoint runs again from its beginning. Started with `invoke(input, config)`,
resumed with `invoke(None, config)` on the same thread, as documented:
https://docs.langchain.com/oss/python/langgraph/use-functional-api ("Resuming after an error").
"""

from __future__ import annotations

from typing import Any

from crashtests.subject import Life
from crashtests.subjects.langchain_form import chat_model, structured
from crashtests.subjects.langgraph_graph import Graph


class Tasks(Graph):
    """The default durability, "async"."""

    name = "LangGraph, tasks, durability=async"

    def prepare(self) -> None:
        super().prepare()
        import langgraph.func  # noqa: F401  # imported before the fork, so that no life has to

    def graph(self, life: Life, saver: Any) -> Any:
        from langgraph.func import entrypoint, task
        from langgraph.graph.message import add_messages

        tools = {tool.name: structured(tool) for tool in life.tools}
        model = chat_model(life.model).bind_tools(list(tools.values()))

        @task
        def ask(messages: list[Any]) -> Any:
            return model.invoke(messages)

        @task
        def call(tool_call: Any) -> Any:
            return tools[tool_call["name"]].invoke(tool_call)

        @entrypoint(checkpointer=saver)
        def agent(given: dict[str, Any]) -> Any:
            messages: Any = add_messages([], given["messages"])
            reply = ask(messages).result()
            while reply.tool_calls:
                results = [each.result() for each in [call(tool_call) for tool_call in reply.tool_calls]]
                messages = add_messages(messages, [reply, *results])  # a new list: tasks hold on to theirs
                reply = ask(messages).result()
            return add_messages(messages, [reply])

        return agent


class SyncTasks(Tasks):
    """Every checkpoint is written before the next step starts: the safest setting."""

    name = "LangGraph, tasks, durability=sync"
    races = False
    durability = "sync"
