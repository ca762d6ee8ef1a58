"""The power command: what it measures of a bug, its table, and what it says of wrong usage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crashtests.__main__ import main
from crashtests.bugs import BUGS
from crashtests.power import Search, row, score

BUG = BUGS[0]
FOUND = Search(0, lives=30, seconds=0.5, shrunk=BUG.smallest, lives_to_shrink=90, seconds_to_shrink=1.0, smallest=True)
LONGER = Search(1, lives=50, seconds=0.7, shrunk="another", lives_to_shrink=110, seconds_to_shrink=1.4, events_more=1)
NOTHING = Search(2, lives=6001, seconds=60.0, shrunk=None)


def test_a_row() -> None:
    """Found how often, lives and seconds to find, how often shrunk to the smallest, lives to shrink."""
    words = row(BUG, [FOUND, LONGER]).removeprefix(BUG.name).split()

    assert [BUG.guarantee, "2/2", "40", "50", "0.6", "0.7", "1/2", "100", "110"] == words


def test_a_row_of_what_was_not_found() -> None:
    """A bug that no seed finds has nothing to shrink."""
    words = row(BUG, [NOTHING]).removeprefix(BUG.name).split()

    assert [BUG.guarantee, "0/1", "6001", "6001", "60.0", "60.0", "0/0", "0", "0"] == words


def test_the_score() -> None:
    """A bug counts only if every seed finds it; what was shrunk counts by search."""
    lines = list(score({"one": [FOUND, LONGER], "two": [FOUND, NOTHING]}))

    assert "found: 1 of 2 planted bugs, from every seed, within 6000 lives each" in lines
    assert "shrunk to the smallest schedule known: 2 of 3 (66.7 %); longer by at most 1 events" in lines


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no such bug"], "crashtests: there is no planted bug 'no such bug'; there are: "),
        (["--seeds", "0"], "crashtests: --seeds and --jobs must be at least 1"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be measured is a usage error, in one line."""
    assert 2 == main(["power", *arguments])
    assert capsys.readouterr().err.startswith(says)


@pytest.mark.slow
def test_a_bug_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A real search from two seeds: found, shrunk to the smallest, and every figure in the file."""
    assert 0 == main(["power", BUG.name, "--seeds", "2", "--jobs", "1", "--json", str(tmp_path / "power.json")])

    assert "found: 1 of 1 planted bugs" in capsys.readouterr().out
    searches = json.loads((tmp_path / "power.json").read_text())["searches"][BUG.name]
    assert [0, 1] == [search["seed"] for search in searches]
    assert {BUG.smallest} == {search["shrunk"] for search in searches}
