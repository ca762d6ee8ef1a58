"""The harness's own tests, run against a mutant: a target of the fork server, which has loaded what all tests need.

A request is `{"edit": {...}, "hook": directory, "tests": [path or pytest's id], "options": [pytest's]}`. The edit is
made when the tests import the harness, in this process and, by a `sitecustomize` in the directory `hook`, in those that
they start with its environment. The exit status is pytest's. With `"covered": path` in it nothing is edited, and there
is written which lines of the harness each test executes in this process: `{id: ["loop.12", ...]}`. It does not know
where mutants come from.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import hypothesis  # noqa: F401  # what takes its time to import, and is not the harness
import pytest

from crashtests import planted

_ROOT = Path(__file__).parents[1]
_HARNESS = os.path.join(_ROOT, "harness", "")
_LOADED = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
_ARGUMENTS = (
    *("-x", "-q", "--no-header", "--tb=line", "-W", _LOADED),
    *("-p", "no:xdist", "-p", "no:cacheprovider", "-o", "addopts="),
)


def run(request: dict[str, Any]) -> int:
    """Run the tests until one fails."""
    os.chdir(_ROOT)
    arguments = [*_ARGUMENTS, *request["options"], *request["tests"]]
    if "covered" in request:
        lines = _Lines()
        status = pytest.main(arguments, plugins=[lines])
        Path(request["covered"]).write_text(json.dumps({test: sorted(found) for test, found in lines.of.items()}))
        return int(status)
    edit = planted.Edit(**request["edit"])
    planted.write_hook(edit, Path(request["hook"]))
    planted.install(edit)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (request["hook"], os.environ.get("PYTHONPATH", ""))))
    return int(pytest.main(arguments))


class _Lines:
    """A plugin of pytest. `of`: the lines of the harness that each test executes, with its fixtures."""

    def __init__(self) -> None:
        self.of: dict[str, set[str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        found = self.of[item.nodeid] = set()

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            path = frame.f_code.co_filename
            if not path.startswith(_HARNESS):
                return None
            module = path.removeprefix(_HARNESS).removesuffix(".py")

            def line(frame: FrameType, event: str, argument: Any) -> Any:
                found.add(f"{module}.{frame.f_lineno}")
                return line

            return line

        sys.settrace(trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
