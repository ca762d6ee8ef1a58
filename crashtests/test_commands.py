"""`python -m crashtests replay` and `keep`: what they print, and the exit status that says what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from crashtests import regressions
from crashtests.__main__ import main
from crashtests.schedule import parse

# The suite's own machinery: it changes seldom, and its tests take their time.
pytestmark = pytest.mark.slow

NAIVE = f"{Path(__file__).parent}/subjects/naive.py:Naive"
HOLDS = "v1 json marks [pay] end > after-effect:1"


def replay(*arguments: str) -> int:
    return main(["replay", *arguments])


def test_replay_of_what_holds(capsys: pytest.CaptureFixture[str]) -> None:
    """A schedule that our harness survives: its timeline, life by life, and status 0."""
    assert 0 == replay(HOLDS)

    said = capsys.readouterr()
    assert "" == said.err
    assert said.out.startswith(f"schedule  {HOLDS}\nlife 1    starts\n")
    assert "          SIGKILL at after-effect:1\n" in said.out
    assert "life 2    resumes\n" in said.out
    assert said.out.endswith("every guarantee holds\n")


def test_replay_of_what_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    """The same schedule on the naive loop: the timeline ends with the guarantee that is broken, and status 1."""
    assert 1 == replay(HOLDS, "--subject", NAIVE)

    said = capsys.readouterr()
    assert "" == said.err
    assert "BROKEN    AT-MOST-ONCE: the effect of pay (step 1-1) happened 2 times" in said.out


def test_replay_of_a_loss_of_power(capsys: pytest.CaptureFixture[str]) -> None:
    """Where power is lost the timeline says so, and what the disk no longer holds."""
    assert 0 == replay("v1 json marks [pay] end > save-a.renamed:1!")

    said = capsys.readouterr().out
    assert "schedule  v1 json marks [pay] end > save-a.renamed:1!\n" in said
    assert "          power lost at save-a.renamed:1, and with it all that was not synced, contents and names\n" in said
    assert "            state/checkpoint.json is as it was before: 796 bytes, not 1130\n" in said
    assert "SIGKILL" not in said
    assert 0 == replay("v1 json marks [pay] end > after-effect:1!torn")
    assert "            nothing: all of it was synced\n" in capsys.readouterr().out


def test_replay_where_power_cannot_be_lost(capsys: pytest.CaptureFixture[str]) -> None:
    """A subject that does not say that its syncs can be seen is not judged by what they would have kept."""
    assert 3 == replay("v1 json marks [pay] end > after-effect:1!", "--subject", NAIVE)
    assert "is to lose power, which cannot be simulated: json is not in its power_stores" in capsys.readouterr().err


def test_replay_of_an_overrun(capsys: pytest.CaptureFixture[str]) -> None:
    """A kill that is never reached: status 4, what happened instead, and what could have been reached."""
    assert 4 == replay("v1 json marks [pay] end > after-effect:2", "--subject", NAIVE)

    said = capsys.readouterr()
    assert "schedule  v1 json marks [pay] end\n" in said.out
    assert said.err == (
        "crashtests: life 1 never passed after-effect:2, so it was not killed; what happened is 'v1 json marks [pay] "
        "end'. It passed: model-asked, model-answered, before-effect, after-effect, tool-returned\n"
    )


def test_replay_of_what_cannot_be_judged(capsys: pytest.CaptureFixture[str]) -> None:
    """A subject that exits without a word: status 3, and who it was."""
    assert 3 == replay("v1 json marks [pay] end", "--subject", "crashtests.bad_subjects:LeavesAtOnce")

    said = capsys.readouterr()
    assert ("", "crashtests: subject leaves at once: life 1 of schedule 'v1 json marks [pay] end' exited") == (
        said.out,
        said.err.partition(" with status 3")[0],
    )


@pytest.mark.parametrize(
    ("line", "subject", "says"),
    [
        ("v1 json marks [pays] end", NAIVE, "crashtests: call 'pays' is none of: read, put, pay,"),
        ("v1 json marks [pay] end", "naive.py", "crashtests: subject 'naive.py' is not of the form"),
        ("v1 json marks [pay] end", "crashtests.bad_subjects:NeedsMore", "No module named 'no_such_module'"),
    ],
)
def test_replay_of_nothing(line: str, subject: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No such schedule, or no such subject: status 2 and one line that says why."""
    assert 2 == replay(line, "--subject", subject)

    said = capsys.readouterr()
    assert "" == said.out
    assert says in said.err
    assert 1 == said.err.count("\n")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of regressions for this test alone, with one in it."""
    path = tmp_path / "schedules.txt"
    path.write_text("# The first.\nv1 json marks [read] end\n")
    monkeypatch.setattr(regressions, "PATH", path)
    return path


def test_keep(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A schedule is kept as it was executed, with its reason above it, and only once."""
    line = "v1 json marks [pay] end > after-effect:1 > -"

    assert 0 == main(["keep", line, "The lesson itself."])
    assert f"kept: {HOLDS}\n" == capsys.readouterr().out
    assert "# The first.\nv1 json marks [read] end\n\n# The lesson itself.\n" + HOLDS + "\n" == kept.read_text()
    assert [parse("v1 json marks [read] end"), parse(HOLDS)] == regressions.regressions()
    assert 2 == main(["keep", line, "Once more."])
    assert f"crashtests: '{HOLDS}' is kept already\n" == capsys.readouterr().err


def test_keep_nothing(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no schedule, has no reason or is an overrun is not kept, and says why."""
    before = kept.read_text()

    assert 2 == main(["keep", "v1 json marks", "Because."])
    assert "is not a schedule" in capsys.readouterr().err
    assert 4 == main(["keep", "v1 json marks [pay] end > after-effect:2", "Because."])
    assert "life 1 never passed after-effect:2" in capsys.readouterr().err
    with pytest.raises(ValueError, match="with its reason, in one line"):
        regressions.keep(parse(HOLDS), " ")
    assert before == kept.read_text()
