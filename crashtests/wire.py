"""The scripted model as a Messages API, for harnesses that speak HTTP: a client object, or a server on loopback.

Both answer as the API does: a JSON body, or the error envelope with its status. Neither streams. `client` imports the
SDK, which takes over a second: a subject does that in its `prepare`, once, before the first life.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from crashtests.scripted import ApiRefused


class Asked(Protocol):
    """Whatever answers a request as the scripted model does, or by asking it."""

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The response body. Raises `ApiRefused`."""


def client(scripted: Asked) -> Any:
    """An `anthropic.Anthropic` whose network is the scripted model, in this process. It does not retry."""
    import anthropic
    import httpx2

    def handle(request: httpx2.Request) -> httpx2.Response:
        status, body = _answer(scripted, request.content)
        return httpx2.Response(status, json=body, headers={"request-id": "req_scripted"})

    return anthropic.Anthropic(
        api_key="none",
        base_url="https://api.invalid",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(handle)),
    )


@contextmanager
def serving(scripted: Asked) -> Iterator[str]:
    """The address of a Messages API on loopback, for `ANTHROPIC_BASE_URL`: reaches a harness in any language."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, body = _answer(scripted, self.rfile.read(int(self.headers["content-length"])))
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing: what a life prints is its harness's."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def _answer(scripted: Asked, content: bytes) -> tuple[int, dict[str, Any]]:
    try:
        return 200, scripted.ask(json.loads(content))
    except ApiRefused as refused:
        return refused.status, dict(refused.body)
