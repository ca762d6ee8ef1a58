"""What crashtests/subjects/README.md says: its subject works as it is pasted, and its table names every subject."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from crashtests.__main__ import main
from crashtests.subject import load_subject
from crashtests.subjects import SUBJECTS

PAGE = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")


def test_every_subject_is_in_the_table() -> None:
    """The table of those that come with the suite names each, and no other."""
    table = PAGE.split("| name | what is run |", 1)[1].split("\n\n", 1)[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`([\w-]+)`", row.split("|")[1])]

    assert set(SUBJECTS) == set(named)
    assert len(named) == len(set(named))


def test_one_run_in_both_places() -> None:
    """The table of the project's README is the first of MATRIX.md, row for row, and has every subject in it."""
    page = (Path(__file__).parent / "MATRIX.md").read_text(encoding="utf-8")
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    tables = [
        text.split("| subject |", 1)[1].split("\n\n", 1)[0] for text in (page, readme.split("<!-- matrix -->")[1])
    ]

    assert tables[0] == tables[1]
    assert [load_subject(name).name for name in SUBJECTS] == re.findall(r"^\| ([^|]+) \| [^|]", tables[0], re.M)


@pytest.fixture
def pasted(tmp_path: Path) -> str:
    """The page's complete subject, in a file of its own."""
    code = PAGE.split("<!-- a complete subject -->\n```python\n", 1)[1].split("```", 1)[0]
    (tmp_path / "my_subject.py").write_text(code)
    return f"{tmp_path / 'my_subject.py'}:Rows"


def test_the_subject_is_short(pasted: str) -> None:
    """It has at most 40 lines of code."""
    lines = Path(pasted.rpartition(":")[0]).read_text().splitlines()

    assert 40 >= len([line for line in lines if line.strip()])


@pytest.mark.slow
def test_the_subject_works_as_pasted(pasted: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is whole without a kill, and with one between a tool and its record the effect happens twice."""
    assert 0 == main(["replay", "v1 json marks [read pay][put] end", "--subject", pasted])
    assert 1 == main(["replay", "v1 json marks [pay] end > before-results-saved:1", "--subject", pasted])

    said = capsys.readouterr().out
    assert "every guarantee holds" in said
    assert "BROKEN    AT-MOST-ONCE: the effect of pay (step 1-1) happened 2 times" in said


@pytest.mark.slow
def test_the_subject_in_a_matrix(pasted: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its matrix is to be trusted: nothing is broken without a kill, and no kill is missed."""
    assert 0 == main(["matrix", "--subjects", pasted, "--out", str(tmp_path / "out")])

    said = capsys.readouterr().out
    assert ":Rows: broken: AT-MOST-ONCE, TOLD, ONE-OWNER (" in said
    assert "invalid" not in said
