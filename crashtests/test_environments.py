"""What subjects need besides the suite's own packages: where it is looked for, what is said when it is not there."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import harness
from crashtests import environments, execute
from crashtests.__main__ import main
from crashtests.environments import ENVIRONMENTS, Environment, NotInstalled, python_of, versions
from crashtests.execute import executor
from crashtests.schedule import parse
from crashtests.subject import SubjectError, load_subject
from crashtests.subjects import SUBJECTS

# The suite's own machinery: it changes seldom, and its tests take their time.
pytestmark = pytest.mark.slow

# Two packages that are surely here, and one that is nowhere.
HERE = Environment("here", ("pytest==9.0.0", "pluggy==1.5.0"))
NOWHERE = Environment("nowhere", ("no-such-package-of-ours==1.0",))


@pytest.fixture(autouse=True)
def _empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is installed, and there are the two environments of this test."""
    monkeypatch.setenv("CRASHTESTS_SUBJECTS", str(tmp_path))
    monkeypatch.setattr(environments, "ENVIRONMENTS", ENVIRONMENTS | {e.name: e for e in (HERE, NOWHERE)})


def test_extras() -> None:
    """Every environment is an extra of the distribution, with the same pins."""
    project = tomllib.loads((Path(harness.__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = {name: tuple(pins) for name, pins in project["optional-dependencies"].items() if name != "dev"}

    assert {name: environment.requirements for name, environment in ENVIRONMENTS.items()} == extras
    assert all("==" in pin for pins in extras.values() for pin in pins)


def test_every_subject_can_be_loaded_here() -> None:
    """A subject is loaded, by its name, without what it needs; what it needs is an environment that there is."""
    needed = {load_subject(name).environment for name in SUBJECTS}

    assert {None, *ENVIRONMENTS} >= needed


def test_python_of(tmp_path: Path) -> None:
    """An interpreter of its own comes first, then this one; without the packages there is none."""
    assert sys.executable == python_of(None)
    assert sys.executable == python_of("here")
    own = tmp_path / "here" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\nexit 1\n")  # one that has not the packages
    own.chmod(0o700)
    assert sys.executable == python_of("here")
    own.write_text("#!/bin/sh\necho '{}'\n".format('{"pytest": "1"}'))
    assert str(own) == python_of("here")
    with pytest.raises(NotInstalled, match="python -m crashtests subjects install nowhere"):
        python_of("nowhere")


def test_versions() -> None:
    """Versions are those that the interpreter has, not those that are pinned."""
    found = versions("here", sys.executable)

    assert ["pytest", "pluggy"] == list(found)
    assert pytest.__version__ == found["pytest"]


def test_a_subject_that_is_not_installed() -> None:
    """Asked for by name it is an error, which says how to install it."""
    with pytest.raises(SubjectError, match="install with: python -m crashtests subjects install langgraph"):
        executor("langgraph-sync").__enter__()


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    """Every subject has a line, and what is not installed is said to be so."""
    assert 0 == main(["subjects"])

    lines = capsys.readouterr().out.splitlines()
    assert list(SUBJECTS) == [line.split()[0] for line in lines]
    assert "langgraph-sync          not installed: python -m crashtests subjects install langgraph" in lines
    assert "naive                   needs nothing more" in lines


def test_install_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """What is no environment cannot be installed: status 2, and the names that are known."""
    assert 2 == main(["subjects", "install", "langgraf"])
    assert "nothing to install for 'langgraf'; known are all, langgraph" in capsys.readouterr().err
    assert 0 == main(["subjects", "install", "naive"])


@pytest.mark.slow
def test_an_interpreter_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lives of a subject run in its interpreter, which finds the suite there, and nothing that is beside it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "own")], check=True)
    own = str(tmp_path / "own" / "bin" / "python")
    monkeypatch.setattr(execute, "python_of", lambda name: own)
    monkeypatch.delenv("PYTHONPATH", raising=False)

    with executor("crashtests.bad_subjects:SaysWhereItRuns") as run:
        reason = run.execute(parse("v1 json marks [read] end")).last.ending

    assert f"{own} None" == (reason or {})["reason"]
