"""The fork servers that the lives of the unit tests come from, each started when it is first asked for.

A life is forked from a process that has loaded the harness and nothing of pytest, which is several times cheaper than
a fork of the test process. What it does is in `crashtests.unit.life`.
"""

from __future__ import annotations

from crashtests.forkserver.client import ForkServer

# A life that hangs is ended, and its test fails.
_LIFE_MAX_S = 60

_started: dict[bool, ForkServer] = {}


def server(*, sdk: bool = False) -> ForkServer:
    """The server of this process; with `sdk`, the one that has loaded the SDK too."""
    if sdk not in _started:
        _started[sdk] = ForkServer("crashtests.unit.life:live", life_timeout_s=_LIFE_MAX_S, setup={"sdk": sdk})
    return _started[sdk]


def close_servers() -> None:
    while _started:
        _started.popitem()[1].close()
