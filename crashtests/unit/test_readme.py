"""What the READMEs say in tables is what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from crashtests.contract import GUARANTEES
from crashtests.plugin import pytest_addoption
from crashtests.subject import Subject
from crashtests.unit import moments
from harness import cli, stop_reasons

TOP = Path(__file__).parents[2]
README = (TOP / "README.md").read_text(encoding="utf-8")
HARNESS = (TOP / "harness" / "README.md").read_text(encoding="utf-8")
CAMPAIGN = (TOP / "crashtests" / "README.md").read_text(encoding="utf-8")


def first_column(text: str, header: str) -> list[str]:
    """The first cells of the table that begins with `header`."""
    rows = text.split(header, 1)[1].split("\n\n", 1)[0].strip().splitlines()[1:]
    return [row.split("|")[1].strip() for row in rows]


def test_the_contract() -> None:
    """The README's guarantees are those that are judged, in the same order."""
    assert list(GUARANTEES) == first_column(README, "| id | guarantee | how it is judged |\n")


def test_the_moments() -> None:
    """The README's table of moments is the one that tests with real kills hold."""
    assert moments.markdown().strip() in README


def test_stop_reasons() -> None:
    """Every stop reason that the harness knows has its row."""
    named = re.findall(r"`(\w+)`", " ".join(first_column(HARNESS, "| `stop_reason` | the harness | a resume |\n")))

    assert set(stop_reasons.STOP_REASONS) == set(named)


def test_exit_statuses() -> None:
    """Every exit status of the command line has its row."""
    numbers = re.findall(r"\d+", " ".join(first_column(HARNESS, "| status | meaning |\n")))

    assert {cli.DONE, cli.USAGE, cli.STOPPED, cli.REFUSED, cli.CTRL_C, cli.TERMINATED, 137} == {int(n) for n in numbers}


def test_the_matrix() -> None:
    """The README's matrix is the first table of the page that a matrix has written, with its date."""
    page = (TOP / "crashtests" / "subjects" / "MATRIX.md").read_text(encoding="utf-8")
    table = page[page.index("| subject | versions |") :].split("\n\n", 1)[0]

    assert f"<!-- matrix -->\n{table}\n\n" in README
    assert page.split("\n\n", 2)[1].split(";", 1)[0] in README


def test_options() -> None:
    """Every option of the campaign has its row."""
    named = re.findall(r"--[a-z-]+", " ".join(first_column(CAMPAIGN, "| option | meaning |\n")))

    assert set(options()) == set(named)


def options() -> list[str]:
    """The names of the options that the plugin adds."""
    names: list[str] = []

    class Group:
        def addoption(self, name: str, **_: object) -> None:
            names.append(name)

    class Parser:
        def getgroup(self, *_: object) -> Group:
            return Group()

    pytest_addoption(Parser())  # type: ignore[arg-type]  # all of a parser that it uses
    return names


def test_hooks_of_a_subject() -> None:
    """Every hook of the interface is in the table for those who bring their own."""
    public = {name for name in vars(Subject) if not name.startswith("_")} - {
        "name",
        "prepare",
        "moments",
        "model_points",
    }

    assert not {name for name in public if f"`{name}" not in CAMPAIGN}
