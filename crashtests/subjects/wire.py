"""Our harness through the real SDK: `anthropic.Anthropic` over a transport in the process, in place of the network.

The scripted model answers as the API would on the wire, status codes and error bodies included, so what is judged is
what the client really sends. Importing the SDK takes over a second and makes each fork dearer: a share of schedules.
"""

from __future__ import annotations

import json
from typing import Any

from crashtests.scripted import ApiRefused, ScriptedModel
from crashtests.subjects.ours import Harness


class Wire(Harness):
    """The reference harness with an `AnthropicModel`."""

    name = "harness over the wire"

    def prepare(self) -> None:
        super().prepare()
        import harness.anthropic_model  # noqa: F401  # imported before the fork, so that no life has to

    def model(self, scripted: ScriptedModel) -> Any:
        import anthropic
        import httpx2

        from harness import AnthropicModel

        def answer(request: httpx2.Request) -> httpx2.Response:
            headers = {"request-id": "req_scripted"}
            try:
                return httpx2.Response(200, json=scripted.ask(json.loads(request.content)), headers=headers)
            except ApiRefused as refused:
                return httpx2.Response(refused.status, json=dict(refused.body), headers=headers)

        client = anthropic.Anthropic(
            api_key="none",
            base_url="https://api.invalid",
            max_retries=0,
            http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
        )
        return AnthropicModel(scripted.name, client=client)
