"""pydantic-ai with the harness's step persistence in SQLite: snapshots of the conversation, and a ledger of effects.

Resumed as documented: the latest snapshot of the conversation's last run that has one (`continue_run`) is the message
history of a new run, and the calls whose effects are unresolved are told to the caller, who has to decide:
https://github.com/pydantic/pydantic-ai-harness/tree/main/pydantic_ai_harness/step_persistence ("Failure recovery").
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from crashtests.subject import Ending, Life, Subject
from crashtests.subjects.dbos_steps import Refused
from crashtests.subjects.pydantic_form import model, tool

_DOCS = "https://github.com/pydantic/pydantic-ai-harness/tree/main/pydantic_ai_harness/step_persistence"
_CONVERSATION = "1"


class StepPersistence(Subject):
    """Snapshots where every call is settled: the default."""

    name = "pydantic-ai, step persistence"
    environment = "pydantic-ai"
    life_timeout_s = 30.0
    understands = frozenset({"read", "put", "pay", "text"})
    parallel = True
    frontier: ClassVar[bool] = False
    """Whether to save the model's calls before they are run, and to go on from there."""
    persistence: ClassVar = {
        "register": "pydantic_ai_harness.step_persistence:SqliteStepStore.register_run",
        "snapshot": "pydantic_ai_harness.step_persistence:SqliteStepStore.save_snapshot",
        "tool-effect": "pydantic_ai_harness.step_persistence:SqliteStepStore.record_tool_effect",
    }
    documents: ClassVar = {
        "AT-MOST-ONCE": f"to run an effect only once is left to the caller, who is told of unresolved ones ({_DOCS})",
        "TOLD": f"of completed calls that no snapshot holds, `inspect_recovery` names the tools ({_DOCS})",
    }

    def prepare(self) -> None:
        import pydantic_ai_harness.step_persistence  # noqa: F401  # imported before the fork, so that no life has to

    def live(self, life: Life) -> Ending:
        return asyncio.run(self._live(life))

    async def _live(self, life: Life) -> Ending:
        from pydantic_ai import Agent
        from pydantic_ai_harness.step_persistence import SqliteStepStore
        from pydantic_ai_harness.step_persistence import StepPersistence as Capability

        life.state_dir.mkdir(exist_ok=True)
        store = SqliteStepStore(database=str(life.state_dir / "runs.sqlite"))
        agent = Agent(
            model(life.model),
            tools=[tool(each) for each in life.tools],
            capabilities=[Capability(store=store, capture_frontier=self.frontier)],
        )
        history, unresolved = await self._found(store) if life.resume else (None, "")
        if life.resume and history is None:
            return Ending("missing", "no run has a snapshot", told=unresolved)
        if history and history[-1].kind == "response" and not history[-1].tool_calls:
            return Ending("done", told=unresolved)
        task = None if life.resume else life.task
        try:
            await agent.run(task, message_history=history, conversation_id=_CONVERSATION)
        except Refused as refused:
            return Ending("stopped", str(refused), told=unresolved)
        return Ending("done", told=unresolved)

    async def _found(self, store: Any) -> tuple[Any, str]:
        """The history to go on from, and what the ledger says of calls that nobody knows the end of."""
        from pydantic_ai_harness.step_persistence import continue_run

        runs = await store.list_runs(conversation_id=_CONVERSATION)
        unresolved = [
            effect.tool_call_id
            for run in runs
            for effect in await store.list_unresolved_tool_effects(run_id=run.run_id)
        ]
        for run in reversed(runs):
            try:
                history = await continue_run(store, run_id=run.run_id, include_interrupted=self.frontier)
            except LookupError:
                continue
            return history, " ".join(unresolved)
        return None, " ".join(unresolved)


class Frontier(StepPersistence):
    """`capture_frontier`: also what was asked for and not yet run, from which a resume goes on."""

    name = "pydantic-ai, step persistence, capture_frontier"
    frontier = True
