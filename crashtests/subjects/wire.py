"""Our harness through the real SDK: `anthropic.Anthropic` over a transport in the process, in place of the network.

What is judged is what the client really sends. The SDK makes each fork dearer, so this is for a share of schedules.
"""

from __future__ import annotations

from typing import Any

from crashtests.scripted import ScriptedModel
from crashtests.subjects.ours import Harness
from crashtests.wire import client


class Wire(Harness):
    """The reference harness with an `AnthropicModel`."""

    name = "harness over the wire"

    def prepare(self) -> None:
        super().prepare()
        import harness.anthropic_model  # noqa: F401  # imported before the fork, so that no life has to

    def model(self, scripted: ScriptedModel) -> Any:
        from harness import AnthropicModel

        return AnthropicModel(scripted.name, client=client(scripted))
