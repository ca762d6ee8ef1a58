"""The matrix on real processes: ours is whole, the naive loop is not, and all of it can be seen again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crashtests import rivals
from crashtests.__main__ import main
from crashtests.matrix import plan

pytestmark = pytest.mark.slow

NAIVE = f"{Path(__file__).parent}/subjects/naive.py:Naive"


@pytest.fixture
def matrix(tmp_path: Path) -> dict[str, Any]:
    """The matrix of ours and the naive loop."""
    assert 0 == main(["matrix", "--subjects", "ours-sqlite", "naive", "--out", str(tmp_path), "--minutes", "5"])
    found: dict[str, Any] = json.loads((tmp_path / "matrix.json").read_text())
    return found


def test_matrix(matrix: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ours holds in every cell; the naive loop is broken where it must be, and its line repeats it."""
    ours, naive = matrix["subjects"]

    assert {"holds"} == {cell["verdict"] for cell in ours["cells"].values()}
    assert [] == ours["control"] + naive["control"]
    assert 0 == ours["left_out"] + naive["left_out"]
    broken = {name for name, cell in naive["cells"].items() if cell["verdict"] == "broken"}
    assert {"AT-MOST-ONCE", "TOLD", "SESSION-KEPT", "ONE-OWNER"} == broken
    assert "| ours, sqlite | this suite's | whole | 0/" in (tmp_path / "matrix.md").read_text()

    smallest = naive["cells"]["AT-MOST-ONCE"]["smallest"]
    assert smallest["again"]["n"] == smallest["again"]["of"] == 10
    assert 1 == main(["replay", smallest["schedule"], "--subject", "naive"])
    assert smallest["says"] in capsys.readouterr().out

    lines = [json.loads(line) for line in (tmp_path / naive["evidence"]).read_text().splitlines()]
    assert {"subject": "naive", "title": "naive loop", "versions": {}, "hash_seed": 0} == lines[0]
    of_its_own = {plan.HOST, plan.DELAYED}  # for those that run a process of their own
    assert set(plan.PARTS) - of_its_own | {"confirm"} == {record["part"] for record in lines[1:]}
    killed = [life for record in lines[1:] for life in record["lives"] if life["killed"]]
    assert {9} == {life["signal"] for life in killed}
    assert all(life["killed"] == life["witness"] for life in killed)


def test_update(tmp_path: Path) -> None:
    """What is in the directory of other subjects is kept, unless it is of a form that is no more."""
    where = ["--out", str(tmp_path), "--minutes", "0.0001"]
    path = tmp_path / "matrix.json"

    assert 1 == main(["matrix", "--subjects", "naive", *where])
    assert 1 == main(["matrix", "--subjects", "ours-json", *where, "--update"])  # for the naive loop that is kept
    assert ["ours-json", "naive"] == [each["name"] for each in json.loads(path.read_text())["subjects"]]
    assert 0 == main(["matrix", "--subjects", "ours-json", *where])
    assert ["ours-json"] == [each["name"] for each in json.loads(path.read_text())["subjects"]]


def test_no_time(tmp_path: Path) -> None:
    """What there was no time for is counted, and the table of an empty campaign is not to be trusted."""
    assert 1 == main(["matrix", "--subjects", "naive", "--out", str(tmp_path), "--minutes", "0.0001"])
    (naive,) = json.loads((tmp_path / "matrix.json").read_text())["subjects"]

    assert 0 < naive["left_out"]
    assert "cannot" == naive["cells"]["AT-MOST-ONCE"]["verdict"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--subjects", "no-such"], "python -m crashtests subjects lists them"),
        (["--subjects", "langgraph-sync"], "install with: python -m crashtests subjects install langgraph"),
        (["--minutes", "0"], "--minutes 0.0 and --jobs"),
    ],
)
def test_usage(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be run is said in one line, with what to do about it, and status 2."""
    monkeypatch.setenv("CRASHTESTS_SUBJECTS", str(tmp_path / "none"))

    assert 2 == main(["matrix", "--out", str(tmp_path), *arguments])
    said = capsys.readouterr().err
    assert says in said
    assert 1 == said.count("\n")
    assert not (tmp_path / "matrix.json").exists()


def test_rivals(capsys: pytest.CaptureFixture[str]) -> None:
    """A second resume beside a live one: ours refuses it and touches nothing, the naive loop runs the tool again."""
    two_turns = "v1 json marks [read][pay] end > after-effect:2"

    assert 0 == main(["rivals", "v1 json marks [pay] end > after-save-a:1", "--hold", "before-effect:1"])
    said = capsys.readouterr().out
    assert "ends: refused - ./state: a live process owns this run" in said
    assert "the second resume left the run alone" in said
    assert 1 == main(["rivals", two_turns, "--hold", "before-effect:1", "--subject", NAIVE])
    said = capsys.readouterr().out
    assert (
        "BROKEN    a second resume was begun while the first was held at before-effect:1: the model was asked" in said
    )
    assert "BROKEN    the effect of pay (step 2-1) happened 3 times" in said


def test_rivals_times(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Where they may or may not meet, it is tried until they do and it breaks, so many times at most."""
    real, tries = rivals.run_rivals, 0

    def at_last(*arguments: Any) -> rivals.Rivals:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise rivals.NotThere(f"no luck in try {tries}")
        return real(*arguments)

    monkeypatch.setattr(rivals, "run_rivals", at_last)
    line = ["rivals", "v1 json marks [pay] end > model-answered:1", "--hold", "before-effect:1", "--subject"]

    assert 4 == main([*line, NAIVE, "--times", "2"])
    assert "no luck in try 2" in capsys.readouterr().err
    tries = 0
    naive = [*line[:1], "v1 json marks [pay] end > model-answered:2", "--hold", "model-asked:1", "--subject", NAIVE]
    assert 1 == main([*naive, "--times", "9"])
    assert 3 == tries
    assert 2 == main([*naive, "--times", "0"])


@pytest.mark.parametrize(
    ("line", "hold", "status", "says"),
    [
        ("v1 json marks [pay] end", "before-effect:1", 2, "a schedule with one kill"),
        ("v1 json marks [pay] end > after-effect:1", "-", 2, "kill '-' is not label:n"),
        ("v1 json marks [pay] end > no-such:1", "before-effect:1", 4, "the first life never passed no-such:1"),
        ("v1 json marks [pay] end > after-effect:1", "no-such:1", 4, "the resume never passed no-such:1"),
    ],
)
def test_rivals_that_do_not_meet(
    line: str, hold: str, status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody is killed, or nobody is held: an error that says which, and nobody waits for ever."""
    assert status == main(["rivals", line, "--hold", hold])
    assert says in capsys.readouterr().err


def test_replay_times(capsys: pytest.CaptureFixture[str]) -> None:
    """What may be a race is run until it breaks, and no longer; a number that is none is refused."""
    line = "v1 json marks [pay] end > after-effect:1"

    assert 1 == main(["replay", line, "--subject", NAIVE, "--times", "5"])
    assert capsys.readouterr().out.startswith("run 1 of at most 5\n")
    assert 0 == main(["replay", line, "--times", "3"])
    assert capsys.readouterr().out.startswith("run 3 of at most 3\n")
    assert 2 == main(["replay", line, "--times", "0"])


def test_replay_of_one_guarantee(capsys: pytest.CaptureFixture[str]) -> None:
    """It alone says when to stop, and the exit status; those that only the matrix judges are among them."""
    line = ["replay", "v1 json marks [pay] end > after-effect:1", "--subject", NAIVE, "--times", "2", "--guarantee"]

    assert 1 == main([*line, "SESSION-KEPT"])
    said = capsys.readouterr().out
    assert said.startswith("run 1 of at most 2\n")
    assert "BROKEN    SESSION-KEPT: life 2 found nothing to resume, although call_1-1_a1 had run" in said
    assert 0 == main([*line, "PAIRED"])
    said = capsys.readouterr().out
    assert said.startswith("run 2 of at most 2\n")
    assert "BROKEN    AT-MOST-ONCE" in said
    assert 2 == main([*line, "ONE-OWNER"])
    assert "--guarantee 'ONE-OWNER' is none of: AT-MOST-ONCE, TOLD, PAIRED," in capsys.readouterr().err
