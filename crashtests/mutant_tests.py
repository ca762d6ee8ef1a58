"""The harness's own tests, run against a mutant: a target of the fork server, which has loaded what all tests need.

A request is `{"edit": {...}, "hook": directory, "files": [path], "options": [pytest's]}`. The edit is made when the
tests import the harness, in this process and, by a `sitecustomize` in the directory `hook`, in those that they start
with its environment. The exit status is pytest's. It does not know where mutants come from.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import hypothesis  # noqa: F401  # what takes its time to import, and is not the harness
import pytest

from crashtests import planted

_ROOT = Path(__file__).parents[1]
_LOADED = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
_ARGUMENTS = (
    *("-x", "-q", "--no-header", "--tb=line", "-W", _LOADED),
    *("-p", "no:xdist", "-p", "no:cacheprovider", "-o", "addopts="),
)


def run(request: dict[str, Any]) -> int:
    """Run the tests until one fails."""
    edit = planted.Edit(**request["edit"])
    planted.write_hook(edit, Path(request["hook"]))
    planted.install(edit)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (request["hook"], os.environ.get("PYTHONPATH", ""))))
    os.chdir(_ROOT)
    files = [str(_ROOT / file) for file in request["files"]]
    return int(pytest.main([*_ARGUMENTS, *request["options"], *files]))
