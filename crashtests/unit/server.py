"""The fork server that the lives of the unit tests come from, started when it is first asked for.

A life is forked from a process that has loaded the harness and nothing of pytest, which is cheaper than a fork of the
test process. What it does is in `crashtests.unit.life`.
"""

from __future__ import annotations

from functools import cache

from crashtests.forkserver.client import ForkServer

# A life that hangs is ended, and its test fails.
_LIFE_MAX_S = 60


@cache
def server() -> ForkServer:
    """The one of this process."""
    return ForkServer("crashtests.unit.life:live", life_timeout_s=_LIFE_MAX_S)


def close_server() -> None:
    if server.cache_info().currsize:
        server().close()
        server.cache_clear()
