"""The scripted model as a Messages API, for harnesses that speak HTTP: a client object, or a server on loopback.

Both answer as the API does: a JSON body, or the error envelope with its status. The server also streams, if it is asked
to. `client` imports the SDK, which takes over a second: a subject does that in its `prepare`, once, before the first
life.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from crashtests.heir import inheriting
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
def serving(scripted: Asked, *, heir: Callable[[], Asked] | None = None) -> Iterator[str]:
    """The address of a Messages API on loopback, for `ANTHROPIC_BASE_URL`: reaches a harness in any language.

    It dies with this process, unless there is an `heir`, which then answers in its place (heir.py).
    """
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        inheriting(lambda: _serve(listening, heir())) if heir else nullcontext(),  # before there are threads
        _server(listening, scripted) as server,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.shutdown()


def _serve(listening: socket.socket, scripted: Asked) -> None:
    with _server(listening, scripted) as server:
        server.serve_forever()


def _server(listening: socket.socket, scripted: Asked) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            status, body = _answer(scripted, content)
            streams = status == 200 and json.loads(content).get("stream")
            data = b"".join(map(_sent, events(body))) if streams else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if streams else "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing: what a life prints is its harness's."""

    server = ThreadingHTTPServer(listening.getsockname()[:2], Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    return server


def _answer(scripted: Asked, content: bytes) -> tuple[int, dict[str, Any]]:
    try:
        return 200, scripted.ask(json.loads(content))
    except ApiRefused as refused:
        return refused.status, dict(refused.body)


def events(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The events in which the API streams a response: each block in one piece."""
    empty: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": {**response, **empty}}
    for index, block in enumerate(response["content"]):
        begun, delta = _in_parts(block)
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        if delta is not None:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": response["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": response["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def _in_parts(block: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """A block as it begins, and what is then added to it; None for a block that comes whole."""
    if block["type"] == "tool_use":
        return block | {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    if block["type"] == "text":
        return block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
    return block, None


def _sent(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
