"""Owns how the client and the fork server talk: JSON messages, each behind its length, over a socket.

The socket is a descriptor of its own, handed down when the server starts. Standard output would not do: a
target that prints while it is imported would corrupt the stream. What the messages mean is the business of
both ends, not of this module.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

_LENGTH = struct.Struct(">Q")
_CHUNK_BYTES = 1 << 16


def encode(message: dict[str, Any]) -> bytes:
    """The message as it goes over the wire; TypeError or ValueError if it is not JSON."""
    body = json.dumps(message).encode("ascii")
    return _LENGTH.pack(len(body)) + body


def receive(channel: socket.socket) -> dict[str, Any] | None:
    """The next message, or None once the other end is gone, be it between two messages or within one.

    Only one message is ever under way, so whatever arrives belongs to it.
    """
    data = bytearray()
    size = None
    while size is None or len(data) < size:
        try:
            chunk = channel.recv(_CHUNK_BYTES)
        except ConnectionError:
            return None
        if not chunk:
            return None
        data += chunk
        if size is None and len(data) >= _LENGTH.size:
            size = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    message = json.loads(data[_LENGTH.size :])
    if not isinstance(message, dict):
        raise ValueError(f"message={message!r:.200} on the fork server's channel must be a JSON object")
    return message
