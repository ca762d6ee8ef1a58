"""A Messages API on loopback HTTP, small and strict, for the command line's `--live` and the SDK below it.

It answers by a script, from the number of assistant turns in the request, and behaves like the API where a crash could
show: every ask mints fresh ids, every response holds a thinking block signed over all that came before, and a request
that breaks the API's rules is refused with a 400. It serves from a thread of the test, so what it was asked is at hand.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from crashtests.api import Signer, Violation, error_body, judge

API_KEY = "key-of-a-test"
_VERSION = "2026-10-21"

_SIGNER = Signer()


class MessagesApi:
    """What the server knows. `unavailable`: how many requests from now on are answered 529.

    `requests` holds every request that came through, `refused` the answers to those that break the rules, `attempts`
    counts every HTTP request. `raw`: a body to answer with, once, instead of what the script says.
    """

    def __init__(self, responses: Sequence[dict[str, Any]]) -> None:
        self._responses = responses
        self.requests: list[dict[str, Any]] = []
        self.refused: list[dict[str, Any]] = []
        self.attempts = 0
        self.unavailable = 0
        self.raw: bytes | None = None
        self.url = ""

    def env(self) -> dict[str, str]:
        """The environment in which the SDK comes here."""
        # Every client would read the system's certificates, in more time than the rest of a run takes.
        no_certificates = {"SSL_CERT_FILE": "", "SSL_CERT_DIR": str(Path(__file__).parent)}
        return {"ANTHROPIC_API_KEY": API_KEY, "ANTHROPIC_BASE_URL": self.url, "NO_PROXY": "*", **no_certificates}

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to one HTTP request."""
        self.attempts += 1
        if self.unavailable:
            self.unavailable -= 1
            return self._error(Violation("overloaded", "Overloaded", 529, "overloaded_error"))
        if headers.get("authorization") != f"Bearer {API_KEY}":
            return self._error(Violation("key", "invalid bearer token", 401, "authentication_error"))
        if path != "/v1/messages":
            return self._error(Violation("path", f"no such path: {path}", 404, "not_found_error"))
        if headers.get("anthropic-version") != _VERSION or headers.get("content-type") != "application/json":
            return self._error(Violation("headers", f"unexpected headers: {headers}"))
        request = json.loads(body)
        if broken := judge(request, signer=_SIGNER):
            return self._error(broken[0])
        self.requests.append(request)
        if self.raw is not None:
            raw, self.raw = self.raw, None
            return 200, raw
        return 200, json.dumps(self._response(request)).encode()

    def _response(self, request: dict[str, Any]) -> dict[str, Any]:
        position = sum(message["role"] == "assistant" for message in request["messages"])
        response = copy.deepcopy(self._responses[position])
        for block in response["content"]:
            if block["type"] == "tool_use":
                block["id"] = f"toolu_{block['name']}_of_ask_{len(self.requests)}"
        thinking = {"type": "thinking", "thinking": f"Step {position}.", "signature": ""}
        response["content"] = _SIGNER.signed(request, [thinking, *response["content"]])
        envelope = {"id": f"msg_{len(self.requests)}", "type": "message", "role": "assistant", "stop_sequence": None}
        return {**envelope, "model": request["model"], **response}

    def _error(self, violation: Violation) -> tuple[int, bytes]:
        body = error_body(violation, f"req_{self.attempts}")
        if violation.status == 400:
            self.refused.append(body)
        return violation.status, json.dumps(body).encode()


@contextmanager
def serving(api: MessagesApi) -> Iterator[MessagesApi]:
    """Serve `api` on a free port of 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, answer = api.answer(self.path, headers, body)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.send_header("request-id", f"req_{api.attempts}")
            self.send_header("retry-after-ms", "1")  # the SDK then retries without a pause
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing on the test's stderr."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        api.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()
