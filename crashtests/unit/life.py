"""What a life of the unit tests does: run the command line, or a scene. The target of their fork server.

It imports nothing of pytest. A request has "do", the name of a function below; the function says what else it has.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from crashtests.unit import cli_tools, surroundings  # noqa: F401 - cli_tools is loaded for the lives that name it
from crashtests.unit.bodies import asks, call, says
from crashtests.unit.scenes import STORES, Scene, say
from harness import Effect, cli, crash


def prepare(setup: dict[str, Any]) -> None:
    """Warm up. There is nothing to choose in `setup`."""
    # Making the parser touches more pages than a short life does otherwise, each of which would have to be copied.
    setattr(cli, "_parser", cache(cli._parser))  # noqa: B010 - mypy takes an assignment to a function for an error
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        try:
            _warm_up(Path(directory))
        finally:
            os.chdir(before)


def live(request: dict[str, Any]) -> int:
    """Live one life."""
    status: int = {"command line": _command_line, "scene": _scene}[request["do"]](request)
    return status


def _command_line(request: dict[str, Any]) -> int:
    """`python -m harness` with `arguments`; `env` is added to the environment, `streams` are files for its output.

    `before`: the name of a function of `surroundings` that is called first, and its arguments; or nothing.
    """
    os.environ.update(request["env"])
    for fd, path in enumerate(request["streams"], start=1):
        stream = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(stream, fd)
        os.close(stream)
    sys.path.insert(0, "")
    if request["before"]:
        name, *given = request["before"]
        getattr(surroundings, name)(*given)
    return cli.main(request["arguments"])


def _scene(request: dict[str, Any]) -> int:
    """A life of the scene that `Scene.request` has told of, killed at the `n`-th pass of `label`."""
    made = Scene(
        Path(request["directory"]),
        STORES[request["store"]],
        request["responses"],
        marks=request["marks"],
        fresh_ids=request["fresh_ids"],
    )
    made.tools = [made.world.tool_again(words) for words in request["tools"]]
    crash.listen(crash.Armed(request["label"], request["n"]))
    say(f"survived: {made.live(say=say, warn=say)}")
    return 1


# Every life would otherwise fill the same caches again, each time on a page that has to be copied first.
def _warm_up(directory: Path) -> None:
    os.environ["CRASH_AFTER"] = "after-tool:9"
    for store, store_class in STORES.items():
        for options in ((), ("--status",), ("--resume",)):
            cli.main(["--store", store, "--state", store, *options])
        made = Scene(directory / f"scene-{store}", store_class, [asks(call("a")), asks(call("b", "b")), says("done")])
        made.tools = [made.world.tool(verify=made.world.verify), made.world.tool("b", Effect.READ_ONLY)]
        made.live(turns_max=1)
        made.live(turns_max=9)
    del os.environ["CRASH_AFTER"]
    crash.listen(None)
