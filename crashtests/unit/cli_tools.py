"""Tools for tests of the command line, by path or by module name: `--tools crashtests.unit.cli_tools`.

What they do to the world stands in `world.log` in the current directory, a line for each effect.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any, NoReturn

from harness import Effect, Tool, current_tool_use_id

MODULE = __name__
WORLD = Path("world.log")
INSIDE_FD = "TOOL_INSIDE_FD"


def effects(directory: Path) -> list[str]:
    """The effects that `directory` has seen, as "tool id"."""
    log = directory / WORLD
    return log.read_text().splitlines() if log.exists() else []


def _append(line: str) -> None:
    with WORLD.open("a") as log:
        log.write(f"{line}\n")


def act(input: dict[str, Any]) -> str:
    _append(f"act {current_tool_use_id()}")
    return "acted"


def go(input: dict[str, Any]) -> str:
    """Change the directory of the whole process, as a shell's `cd` does."""
    os.chdir(input["to"])
    return "there"


def look(input: dict[str, Any]) -> str:
    return "seen"


def wait(input: dict[str, Any]) -> str:
    """Tell whoever gave this process a pipe that the tool runs, and wait to be ended; without one, just act."""
    _append(f"wait {current_tool_use_id()}")
    if INSIDE_FD not in os.environ:
        return "nobody to wait for"
    os.write(int(os.environ[INSIDE_FD]), b"!")
    while True:
        time.sleep(0.01)


def leave(input: dict[str, Any]) -> NoReturn:
    raise SystemExit("the tool wants to leave")


def cancel(input: dict[str, Any]) -> NoReturn:
    raise asyncio.CancelledError("cancelled")


def interrupt(input: dict[str, Any]) -> NoReturn:
    raise KeyboardInterrupt


def shout(input: dict[str, Any]) -> str:
    print("the tool was here")
    return f"process {os.getpid()} shouted"


_ANYTHING = {"type": "object"}

TOOLS = [
    Tool("look", "Look.", _ANYTHING, look, effect=Effect.READ_ONLY),
    *(
        Tool(run.__name__, f"{run.__name__}.", _ANYTHING, run)
        for run in (act, wait, leave, cancel, interrupt, shout, go)
    ),
]
