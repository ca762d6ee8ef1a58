"""Planting an edit: it is made in memory when its module is imported, exactly once, or not at all."""

from __future__ import annotations

import importlib
import linecache
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from crashtests.planted import Edit, PlantError, install, write_hook

SOURCE = "def rate() -> int:\n    return 3\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module `planted_here` that nobody has imported; what is installed in the test is gone after it."""
    path = tmp_path / "planted_here.py"
    path.write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.delitem(sys.modules, "planted_here", raising=False)
    return path


def test_applied_on_import(module: Path) -> None:
    """The module does what the edit says, and its file is as it was, beside no cache of the edited code."""
    install(Edit("planted_here", "return 3", "return 4"))
    planted = importlib.import_module("planted_here")

    assert 4 == planted.rate()
    assert SOURCE == module.read_text()
    del sys.modules["planted_here"]
    sys.meta_path.pop(0)
    assert 3 == importlib.import_module("planted_here").rate()


def test_several_modules(module: Path) -> None:
    """Two edits of two modules do not know of each other, and other modules are not touched."""
    module.with_name("planted_there.py").write_text("import planted_here\nname = 'there'\n")
    install(Edit("planted_here", "return 3", "return 5"))
    install(Edit("planted_there", "'there'", "'elsewhere'"))
    there = importlib.import_module("planted_there")

    assert ("elsewhere", 5) == (there.name, there.planted_here.rate())
    del sys.modules["planted_there"]


def test_shown_as_planted(module: Path) -> None:
    """In a traceback the module is called a planted bug, so that nobody looks for the line in the file."""
    install(Edit("planted_here", "return 3", "return 1 // 0"))
    planted = importlib.import_module("planted_here")
    with pytest.raises(ZeroDivisionError) as error:
        planted.rate()

    linecache.clearcache()
    assert f"{module} (planted bug)" in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize(("before", "times"), [("return 4", 0), ("r", 3)])
def test_an_edit_that_does_not_fit(module: Path, before: str, times: int) -> None:
    """What is not there, or there more than once, is refused when the module is imported."""
    install(Edit("planted_here", before, "pass"))
    with pytest.raises(PlantError, match=f"'{before}' stands {times} times in planted_here, not exactly once"):
        importlib.import_module("planted_here")


def test_a_module_that_is_imported_already(module: Path) -> None:
    """An edit that would come too late is refused, not lost."""
    importlib.import_module("planted_here")
    with pytest.raises(PlantError, match="planted_here is imported already"):
        install(Edit("planted_here", "return 3", "return 4"))


def test_a_module_without_a_source(module: Path) -> None:
    """What is not there cannot be edited."""
    install(Edit("planted_nowhere", "a", "b"))
    with pytest.raises(PlantError, match="planted_nowhere has no source to edit"):
        importlib.import_module("planted_nowhere")


def test_a_hook_for_other_processes(module: Path, tmp_path: Path) -> None:
    """With the hook on its path an interpreter makes the edit, and nothing of the suite is to be seen in it."""
    hook = tmp_path / "hook"
    hook.mkdir()
    write_hook(Edit("planted_here", "return 3", "return 4"), hook)
    code = "import sys, planted_here; print(planted_here.rate(), 'crashtests' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(hook), str(module.parent)))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    assert ("4 False\n", "") == (done.stdout, done.stderr)
    assert SOURCE == module.read_text()
