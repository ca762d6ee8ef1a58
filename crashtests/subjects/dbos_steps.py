"""DBOS Transact on SQLite: the agent loop a workflow, each request to the model and each tool call a step.

Resumed by launching DBOS on the same database, which recovers the workflows that were pending, and waiting for the
workflow by its id: https://docs.dbos.dev/python/tutorials/workflow-tutorial and
https://docs.dbos.dev/production/workflow-recovery .
"""

from __future__ import annotations

from typing import Any, ClassVar

from crashtests.scripted import ApiRefused
from crashtests.subject import Ending, Life, Subject

_DOCS = "https://docs.dbos.dev/explanations/concurrent-executions"
_ID = "1"


class Refused(RuntimeError):
    """The API has refused a request. Unlike `ApiRefused` it can be pickled, as the database of steps demands."""


class Steps(Subject):
    """One workflow; what a step returned is in the database once it has returned."""

    name = "DBOS, a step for each call"
    environment = "dbos"
    life_timeout_s = 30.0
    understands = frozenset({"read", "put", "pay", "text"})
    persistence: ClassVar = {
        "init": "dbos._sys_db:SystemDatabase.init_workflow",
        "record": "dbos._sys_db:SystemDatabase.record_operation_result",
        "outcome": "dbos._sys_db:SystemDatabase.update_workflow_outcome",
    }
    documents: ClassVar = {
        "AT-MOST-ONCE": f"steps are run at least once ({_DOCS})",
        "ONE-OWNER": f"two executors may run one workflow; its outcome is recorded once ({_DOCS})",
    }

    def prepare(self) -> None:
        import dbos  # noqa: F401  # imported before the fork, so that no life has to

    def live(self, life: Life) -> Ending:
        from dbos import DBOS, SetWorkflowID

        life.state_dir.mkdir(exist_ok=True)
        DBOS(config=configuration(life))
        workflow = self.workflow(life)
        DBOS.launch()
        try:
            if not life.resume:
                with SetWorkflowID(_ID):
                    DBOS.start_workflow(workflow, life.task)
            elif DBOS.get_workflow_status(_ID) is None:
                return Ending("missing", "there is no such workflow")
            DBOS.retrieve_workflow(_ID).get_result(polling_interval_sec=0.01)
        except Refused as refused:
            return Ending("stopped", str(refused))
        return Ending("done")

    def workflow(self, life: Life) -> Any:
        """The agent loop, registered as a workflow."""
        from dbos import DBOS

        tools = {tool.name: tool for tool in life.tools}
        specs = [{"name": t.name, "description": t.description, "input_schema": t.input_schema} for t in life.tools]

        @DBOS.step()
        def ask(messages: list[Any]) -> Any:
            try:
                return life.model.ask({"model": "scripted", "max_tokens": 1000, "messages": messages, "tools": specs})
            except ApiRefused as refused:
                raise Refused(str(refused)) from None

        @DBOS.step()
        def call(name: str, tool_use_id: str) -> str:
            return str(tools[name].run(tool_use_id))

        @DBOS.workflow()
        def agent(task: str) -> str:
            messages: list[Any] = [{"role": "user", "content": task}]
            while True:
                content = ask(messages)["content"]
                messages.append({"role": "assistant", "content": content})
                calls = [block for block in content if block["type"] == "tool_use"]
                if not calls:
                    return str(content)
                results = [
                    {"type": "tool_result", "tool_use_id": c["id"], "content": call(c["name"], c["id"])} for c in calls
                ]
                messages.append({"role": "user", "content": results})

        return agent


def configuration(life: Life) -> Any:
    """A database in the state directory, and nothing that reaches out of the process or waits."""
    return {
        "name": "crashtests",
        "system_database_url": f"sqlite:///{life.state_dir / 'dbos.sqlite'}",
        "application_version": "1",
        "executor_id": "local",
        "console_log_level": "ERROR",
        "notification_listener_polling_interval_sec": 0.001,
    }
