"""The model, behind one small interface: raw Messages API JSON in, raw JSON out.

`AnthropicModel` (in its own module, the only one that imports the SDK) asks Claude; `ScriptedModel` answers from a
list, by position in the conversation, so that a restart needs no rewinding.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from harness.errors import ModelFailed, UsageError


class Model(Protocol):
    """Anything that answers a request.

    `name` goes into the request prefix of a run that starts; a run that is resumed keeps the name it started with.
    """

    @property
    def name(self) -> str: ...

    def ask(self, request: dict[str, Any]) -> Any:
        """The response body to `request`, a Messages API body that is not to be changed. Raises `ModelFailed`."""


class ScriptedModel:
    """Answers with `responses[n]`, where n is the number of assistant turns already in the request.

    `responses`: Messages API response bodies (`content`, `stop_reason`, `usage`). They are given out verbatim unless
    `mint_id` is given: then each `tool_use` gets a fresh id from it, as the API would do on every ask.
    """

    def __init__(
        self,
        responses: Sequence[dict[str, Any]],
        *,
        name: str = "scripted",
        mint_id: Callable[[], str] | None = None,
    ) -> None:
        self.name = name
        self._responses = responses
        self._mint_id = mint_id

    @classmethod
    def from_file(
        cls, path: Path | str, *, name: str = "scripted", mint_id: Callable[[], str] | None = None
    ) -> ScriptedModel:
        """Read a JSON list of response bodies. Raises `UsageError`."""
        try:
            responses = json.loads(Path(path).read_bytes())
        except (OSError, ValueError, RecursionError) as cause:
            raise UsageError(f"script {str(path)!r} cannot be read: {cause}") from cause
        if not isinstance(responses, list) or not all(isinstance(r, dict) for r in responses):
            raise UsageError(f"script {str(path)!r} is not a JSON list of response bodies")
        return cls(responses, name=name, mint_id=mint_id)

    def ask(self, request: dict[str, Any]) -> Any:
        position = sum(message["role"] == "assistant" for message in request["messages"])
        if position >= len(self._responses):
            raise ModelFailed(f"the script ends after {len(self._responses)} responses, and one more was asked for")
        try:
            response = copy.deepcopy(self._responses[position])
        except RecursionError as cause:
            raise ModelFailed(f"response {position + 1} of the script is nested too deep") from cause
        if self._mint_id is not None:
            for block in response["content"]:
                if block["type"] == "tool_use":
                    block["id"] = self._mint_id()
        return response
