"""The repository as a whole: what is in it, what a wheel of it holds, who imports whom, and the house style."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import harness

ROOT = Path(harness.__file__).parents[1]
PACKAGES = ("harness", "crashtests")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())

TOP_LEVEL = {
    *PACKAGES,
    "conftest.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
}

FUNCTION_LINES_MAX = 70
CODE_LINES_MAX = 400


@cache
def files() -> list[Path]:
    """The files of the repository, relative to its root; in a copy without git, all but what tools leave behind."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        tracked = [Path(name) for name in listed.stdout.split("\0") if name]
        return [path for path in tracked if (ROOT / path).exists()]
    left_behind = re.compile(r"(^|/)(\.[^/]*|__pycache__|build|dist|[^/]*\.egg-info)(/|$)")
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return [path for path in found if not left_behind.search(str(path))]


@cache
def sources() -> dict[Path, str]:
    return {path: (ROOT / path).read_text() for path in files() if path.suffix == ".py"}


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(source) for path, source in sources().items()}


@cache
def nodes(path: Path) -> list[ast.AST]:
    """A file's module and all its statements; expressions, of which there are many more, are of no interest here."""
    found: list[ast.AST] = [trees()[path]]
    for node in found:
        for field in ("body", "orelse", "handlers", "finalbody", "cases"):
            found += getattr(node, field, [])
    return found


@cache
def imports(path: Path) -> frozenset[str]:
    """The modules that a file imports anywhere, also inside functions."""
    return frozenset(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield str(node.module)


def importers(*packages: str) -> set[str]:
    """The files that import one of these packages."""
    return {str(path) for path in trees() if {name.partition(".")[0] for name in imports(path)} & set(packages)}


def test_top_level() -> None:
    """The root holds what a reader expects and nothing else; the rest has its place in a package."""
    assert set() == {path.parts[0] for path in files() if not path.parts[0].startswith(".")} - TOP_LEVEL


def test_a_wheel_holds_every_file() -> None:
    """Each file of the packages is a module of a package that is found, or matched by its package's data."""
    included = PYPROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    data: dict[str, list[str]] = PYPROJECT["tool"]["setuptools"]["package-data"]

    left_out = []
    for path in files():
        package, *_ = path.parts
        if package in PACKAGES and path.suffix == ".py":
            dotted = ".".join(path.parent.parts)
            found = any(fnmatch(dotted, pattern) for pattern in included)
            whole = all((ROOT / parent / "__init__.py").exists() for parent in path.parents if parent.parts)
            if not (found and whole):
                left_out.append(path)
        elif package in PACKAGES:
            inside = str(path.relative_to(package))
            if not any(fnmatch(inside, pattern) for pattern in data[package]):
                left_out.append(path)

    assert [] == left_out


@pytest.mark.parametrize("name", ["py.typed", "demo/script.json", "demo/sales-notes.txt"])
def test_package_data(name: str) -> None:
    """The files that the harness needs at run time, and the mark that it is typed, are found as package data."""
    assert (resources.files("harness") / name).is_file()
    assert Path("harness", name) in files()


def test_dependencies() -> None:
    """The four packages are the dependencies, and `dev` adds the linters."""
    project = PYPROJECT["project"]

    assert ["anthropic", "hypothesis", "pytest", "pytest-xdist"] == _names(project["dependencies"])
    assert ["mypy", "ruff"] == _names(project["optional-dependencies"]["dev"])


def _names(requirements: list[str]) -> list[str]:
    return sorted(re.split(r"[^\w-]", requirement, maxsplit=1)[0] for requirement in requirements)


def test_the_harness_does_not_know_the_campaign() -> None:
    """Imports run one way: from the campaign to the harness."""
    assert set() == {path for path in importers("crashtests", "pytest", "hypothesis") if path.startswith("harness/")}


def test_one_module_imports_the_sdk() -> None:
    """In the harness, only the module that calls the SDK imports it: everybody else starts in a tenth of a second."""
    assert {"harness/anthropic_model.py"} == {
        path for path in importers("anthropic", "httpx2") if path.startswith("harness/")
    }


def test_every_file_says_what_it_is() -> None:
    """Every file of source opens with a docstring, and every test has one of its own."""
    nameless = [str(path) for path, tree in trees().items() if not ast.get_docstring(tree)]
    for path, function in functions():
        if function.name.startswith("test_") and path.name.startswith("test_") and not ast.get_docstring(function):
            nameless.append(f"{path}:{function.lineno} {function.name}")

    assert [] == nameless


def functions() -> Iterator[tuple[Path, ast.FunctionDef]]:
    for path in trees():
        yield from ((path, node) for node in nodes(path) if isinstance(node, ast.FunctionDef))


def test_nothing_is_too_long_to_read() -> None:
    """No function is over 70 lines, no file over 400 lines of code."""
    too_long = [
        f"{path}:{function.lineno} {function.name}"
        for path, function in functions()
        if (function.end_lineno or 0) - function.lineno >= FUNCTION_LINES_MAX
    ]
    for path in trees():
        if (lines := code_lines(path)) > CODE_LINES_MAX:
            too_long.append(f"{path}: {lines} lines of code")

    assert [] == too_long


def code_lines(path: Path) -> int:
    """Lines that are neither blank, nor a comment, nor a docstring."""
    lines = [line.strip() for line in sources()[path].splitlines()]
    for node in nodes(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            first, last = node.body[0].lineno, node.body[0].end_lineno or 0
            lines[first - 1 : last] = [""] * (last - first + 1)
    return sum(bool(line) and not line.startswith("#") for line in lines)


def test_ci_runs_what_the_readme_says() -> None:
    """`.ci/run` can be run, and takes the test command from the README; of its own it has the slow tests only."""
    run = ROOT / ".ci/run"

    assert os.access(run, os.X_OK)
    assert "README.md" in run.read_text()
    assert all("--slow" in line for line in run.read_text().splitlines() if "pytest" in line)
