"""Kills that come a while after their crash point, and kills of the host alone, on real processes."""

from __future__ import annotations

import signal
import sys
from typing import Any

import pytest

from crashtests import execute as executing
from crashtests import life
from crashtests.__main__ import main
from crashtests.evidence import Evidence
from crashtests.execute import OURS, SubjectFault, executor
from crashtests.schedule import Kill, parse
from crashtests.timeline import render

NAIVE = "crashtests.subjects.naive:Naive"

# Each starts a server of its own, and some of them wait.
pytestmark = pytest.mark.slow


def lived(subject: str, kill: str) -> Evidence:
    """A run of one call whose first life is killed so."""
    with executor(subject, warm_up=False) as execute:
        return execute.again(parse(f"v1 json marks [pay] end > {kill}"), cold=False)


def test_a_kill_at_a_delay() -> None:
    """It is witnessed like any other: announced as it was planned, and signal 9; what was passed is logged."""
    evidence = lived("crashtests.bad_subjects:Waits", "there:1+20")
    first = evidence.lives[0]

    assert Kill("there", 1, delay_ms=20) == first.killed_at
    assert ("there:1+20", signal.SIGKILL) == (first.death.witness, first.death.signal)
    assert ["there"] == first.passed
    assert "SIGKILL 20 ms after there:1" in render(evidence, [])


def test_a_kill_that_is_too_late() -> None:
    """A life that has ended before is not killed: an overrun, and what happened is a run without a kill."""
    evidence = lived(NAIVE, "after-effect:1+60000")

    assert (1, ["done"]) == (evidence.overruns, [each.status for each in evidence.lives])
    assert "v1 json marks [pay] end" == str(evidence.schedule)


def test_a_replay_that_is_too_late(capsys: pytest.CaptureFixture[str]) -> None:
    """It has run something else than the line says, which is an error that says so."""
    assert 4 == main(["replay", "v1 json marks [pay] end > after-effect:1+60000", "--subject", NAIVE])
    assert "life 1 was over before after-effect:1+60000, so it was not killed" in capsys.readouterr().err


@pytest.mark.parametrize("closed", [False, True])
def test_nobody_dies_who_has_said_how_it_ended(closed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a life is about to log its end, a kill that is due no longer comes."""
    died: list[str] = []
    monkeypatch.setattr(life, "die", died.append)
    points = life._Points(None, None, None)
    world: Any = type("World", (), {"flush": staticmethod(lambda: None)})
    points.world = world
    if closed:
        points.close()
    points._die_later(Kill("there", 1, delay_ms=1))

    assert ([] if closed else ["there:1+1"]) == died


def test_ours_dies_at_its_crash_points() -> None:
    """What follows a kill between two of them is not foretold, so none is judged by it."""
    with pytest.raises(SubjectFault, match="is to die at a delay"):
        lived(OURS, "after-tool:1+5")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing lives on")
def test_a_host_that_dies_alone() -> None:
    """What it had started lives on, and finds the model still there; what it says to that is part of the life."""
    evidence = lived("crashtests.bad_subjects:LeavesAWorker", "after-effect:1@host")
    first = evidence.lives[0]
    later = [event for event in first.events if event["pid"] != first.events[0]["pid"]]

    assert "v1 json marks [pay] end > after-effect:1@host" == str(evidence.schedule)
    assert (2, 0) == (first.death.lived_on, first.death.survivors)  # the worker, and the model's heir
    assert ["ask", "answer"] == [event["event"] for event in later]
    assert [1, 2] == [event["ask"] for event in first.of("ask")]
    story = render(evidence, [])
    killed, living, asked = (
        story.index(text) for text in ("of the host alone", "2 processes lived on, for", "request 2")
    )
    assert killed < living < asked


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing lives on")
def test_what_does_not_end_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is still alive behind a dead host when its time is up is killed, and the story says so."""
    monkeypatch.setattr(executing, "_LIVES_ON_S", 0.2)
    evidence = lived("crashtests.bad_subjects:LeavesAChild", "after-effect:1@host")

    assert [(1, 1), (0, 1)] == [(each.death.lived_on, each.death.survivors) for each in evidence.lives][:2]
    assert "then 1 of them were killed" in render(evidence, [])


def test_nothing_lives_on_unasked() -> None:
    """A plain kill takes along what the host had started."""
    first = lived("crashtests.bad_subjects:LeavesAChild", "after-effect:1").lives[0]

    assert (0, 1) == (first.death.lived_on, first.death.survivors)
