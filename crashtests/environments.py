"""Environments: the packages that subjects need besides the suite's own, each set in an interpreter of its own.

The dependencies of frameworks quarrel with each other, so each is installed into a virtual environment below one
directory, which `CRASHTESTS_SUBJECTS` names; it knows the pinned versions and where things are, not what a subject
does with them. The extras of pyproject.toml are the same table, which a test holds against `ENVIRONMENTS`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# What a venv's interpreter is asked for: the version of each package named on its command line.
_ASK = "import importlib.metadata as m, json, sys; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"


class NotInstalled(Exception):
    """What a subject needs is not there. The message says how to install it."""


class InstallFailed(Exception):
    """pip or venv has failed. The message holds the end of what it printed."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A set of pinned requirements; the name is also that of the extra in pyproject.toml."""

    name: str
    requirements: tuple[str, ...]

    @property
    def packages(self) -> list[str]:
        """The names of what is required, without extras and versions."""
        return [re.split(r"[\[=]", requirement)[0] for requirement in self.requirements]


_ALL = [
    Environment("langgraph", ("langgraph==1.2.24", "langgraph-checkpoint-sqlite==3.1.2", "agent-once==0.1.0")),
    Environment("openai-agents", ("openai-agents==0.24.0",)),
    Environment("dbos", ("dbos==3.4.0",)),
    Environment("claude-agent", ("claude-agent-sdk==0.2.189",)),
    Environment("pydantic-ai", ("pydantic-ai-slim[dbos]==2.68.0", "pydantic-ai-harness==0.36.0")),
]
ENVIRONMENTS = {environment.name: environment for environment in _ALL}


def directory() -> Path:
    """Where environments are: `CRASHTESTS_SUBJECTS`, else `crashtests/subjects` in the user's cache."""
    if chosen := os.environ.get("CRASHTESTS_SUBJECTS"):
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crashtests" / "subjects"


def python_of(name: str | None) -> str:
    """The interpreter for subjects that need the environment `name`; None needs nothing. Raises `NotInstalled`.

    One set up by `install` comes first, else this interpreter, if it has every package. The versions may be others than
    those pinned: what was run is what is reported.
    """
    if name is None:
        return sys.executable
    own = str(directory() / name / "bin" / "python")
    for python in (own, sys.executable):
        if Path(python).exists() and versions(name, python):
            return python
    raise NotInstalled(
        f"{' and '.join(ENVIRONMENTS[name].packages)} not installed in {directory() / name}, nor in this interpreter; "
        f"install with: python -m crashtests subjects install {name}"
    )


def versions(name: str | None, python: str) -> dict[str, str]:
    """The installed version of each package of an environment, as its interpreter says; empty if one is missing."""
    return {} if name is None else installed(ENVIRONMENTS[name].packages, python)


def installed(packages: Sequence[str], python: str) -> dict[str, str]:
    """The version of each package in an interpreter; empty if one is missing."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    asked = [python, "-c", _ASK, *packages]
    answer = subprocess.run(asked, capture_output=True, text=True, env=environment, check=False)
    found: dict[str, str] = json.loads(answer.stdout) if answer.returncode == 0 else {}
    return found


def install(name: str) -> Path:
    """Make the environment `name` with venv and pip, anew if it is there. Returns its directory.

    Raises `InstallFailed`; what was half made is left for a look, and made anew by the next call.
    """
    place = directory() / name
    python = place / "bin" / "python"
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(place)],
        [str(python), "-m", "pip", "install", "--disable-pip-version-check", *ENVIRONMENTS[name].requirements],
    ):
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if ran.returncode != 0:
            raise InstallFailed(f"{' '.join(command)} exited with status {ran.returncode}:\n{ran.stdout[-2000:]}")
    return place
