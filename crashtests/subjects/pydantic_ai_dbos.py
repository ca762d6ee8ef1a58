"""pydantic-ai on DBOS: an agent with `DBOSDurability`, run in a workflow, each tool a step.

Resumed by launching DBOS on the same database, which recovers the workflow: https://ai.pydantic.dev/durable_execution/dbos
(there: model requests are steps by themselves, tools that do I/O are to be made steps).
"""

from __future__ import annotations

from typing import Any

from crashtests.subject import Life
from crashtests.subjects.dbos_steps import Steps
from crashtests.subjects.pydantic_form import model, tool


class Durable(Steps):
    """The same workflow in DBOS as of the loop of one's own, with pydantic-ai's loop in it."""

    name = "pydantic-ai on DBOS, tools as steps"
    environment = "pydantic-ai"
    packages = ("pydantic-ai-slim", "dbos")

    def prepare(self) -> None:
        super().prepare()
        import pydantic_ai.durable_exec.dbos
        import pydantic_ai.models.function  # noqa: F401  # imported before the fork, so that no life has to

    def workflow(self, life: Life) -> Any:
        from dbos import DBOS
        from pydantic_ai import Agent
        from pydantic_ai.durable_exec.dbos import DBOSDurability

        agent = Agent(
            model(life.model),
            name="agent",
            tools=[tool(each, wrap=DBOS.step()) for each in life.tools],
            capabilities=[DBOSDurability()],
        )

        @DBOS.workflow()
        async def run(task: str) -> str:
            return str((await agent.run(task)).output)

        return run
