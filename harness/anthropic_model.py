"""Claude through the official SDK, over the plain Messages API with the full history in every request.

The response is taken as raw JSON: the SDK's models would add, drop or re-order fields, and what comes back must go
back value for value. The SDK validates nothing and retries 408, 409, 429, 5xx and lost connections by itself; what
it then gives up on becomes a `ModelFailed`. Importing the SDK takes over a second, so `import harness` does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anthropic
import httpx2

from harness.errors import ModelFailed

DEFAULT_MODEL = "claude-opus-5-5"


class AnthropicModel:
    """Asks the Messages API.

    `client`: an `anthropic.Anthropic`, made from the environment (`ANTHROPIC_API_KEY`) if not given; its
    `max_retries` and `timeout` apply. `options`: further fields of each request that are not part of the request
    prefix, such as `{"thinking": {"type": "adaptive"}}`.
    """

    def __init__(
        self,
        name: str = DEFAULT_MODEL,
        *,
        client: anthropic.Anthropic | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self._client = anthropic.Anthropic() if client is None else client
        self._options = dict(options or {})

    def ask(self, request: dict[str, Any]) -> Any:
        try:
            response = self._client.messages.with_raw_response.create(**request, **self._options)
            return response.http_response.json()
        except anthropic.APIStatusError as cause:
            raise ModelFailed(f"the API answered {cause.status_code}: {cause.message}") from cause
        # ValueError: a body that is no JSON, or a request the SDK will not send (max_tokens above 21,333).
        # RecursionError: a body nested too deep to be read. TypeError: no credentials, or options it does not know.
        except (anthropic.AnthropicError, httpx2.HTTPError, ValueError, RecursionError, TypeError) as cause:
            raise ModelFailed(f"the API could not be reached or understood: {cause}") from cause
