"""An agent loop that can be killed anywhere and resumed: nothing is done twice, nothing is lost, the truth is told.

from harness import AnthropicModel, Effect, JsonStore, Tool, run_agent

result = run_agent(AnthropicModel(), "Send the invoices.", [Tool(...)], JsonStore("state"), resume="or-start")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.errors import (
    HarnessError,
    ModelFailed,
    StateDamaged,
    StateForeign,
    StateHeld,
    StateIncomplete,
    StateMissing,
    StateMode,
    StateRefused,
    StateVersion,
    StopError,
    UsageError,
    WriteFailed,
)
from harness.json_store import JsonStore
from harness.loop import Result, run_agent
from harness.model import Model, ScriptedModel
from harness.sqlite_store import SqliteStore
from harness.store import Store
from harness.tool import CANNOT_TELL, NOT_DONE, Done, Effect, Tool, Verdict, current_tool_use_id

if TYPE_CHECKING:
    from harness.anthropic_model import AnthropicModel

__all__ = [
    "CANNOT_TELL",
    "NOT_DONE",
    "AnthropicModel",
    "Done",
    "Effect",
    "HarnessError",
    "JsonStore",
    "Model",
    "ModelFailed",
    "Result",
    "ScriptedModel",
    "SqliteStore",
    "StateDamaged",
    "StateForeign",
    "StateHeld",
    "StateIncomplete",
    "StateMissing",
    "StateMode",
    "StateRefused",
    "StateVersion",
    "StopError",
    "Store",
    "Tool",
    "UsageError",
    "Verdict",
    "WriteFailed",
    "current_tool_use_id",
    "run_agent",
]


def __getattr__(name: str) -> Any:
    """Import the SDK only for those who ask for `AnthropicModel`: it takes over a second."""
    if name == "AnthropicModel":
        from harness.anthropic_model import AnthropicModel

        return AnthropicModel
    raise AttributeError(f"module 'harness' has no attribute {name!r}")
