"""Claude through the official SDK, over the plain Messages API with the full history in every request.

The response is taken as raw JSON: the SDK's models would add, drop or re-order fields, and what comes back must go
back value for value. The SDK validates nothing and retries 408, 409, 429, 5xx and lost connections by itself; what
it then gives up on becomes a `ModelFailed`. Importing the SDK takes over a second, so `import harness` does not.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from typing import Any

import anthropic
import httpx2

from harness.errors import ModelFailed, UsageError

DEFAULT_MODEL = "claude-opus-5-5"


class AnthropicModel:
    """Asks the Messages API.

    `client`: an `anthropic.Anthropic`, made from the environment (`ANTHROPIC_API_KEY`) if not given; its
    `max_retries` and `timeout` apply. `options`: further fields of each request that are not part of the request
    prefix, such as `{"thinking": {"type": "adaptive"}}`. Raises `UsageError` for an environment (a proxy, a
    certificate, an address) from which the SDK can make no client.
    """

    def __init__(
        self,
        name: str = DEFAULT_MODEL,
        *,
        client: anthropic.Anthropic | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self._client = _client_of_the_environment() if client is None else client
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


def _client_of_the_environment() -> anthropic.Anthropic:
    try:
        return anthropic.Anthropic()
    except Exception as cause:
        _let_go(cause)
        raise UsageError(f"the SDK's client cannot be made: {type(cause).__name__}: {cause}") from cause


def _let_go(error: BaseException | None) -> None:
    """Free what the frames of an error hold: a client that is half made complains on stderr when it is freed."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
    try:
        while error is not None:
            traceback.clear_frames(error.__traceback__)
            error = error.__context__
    finally:
        sys.unraisablehook = hook
