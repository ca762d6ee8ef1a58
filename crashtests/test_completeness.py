"""Completeness of the labels: killed at any line or system call, a life leaves nothing that no label leaves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

import pytest

from crashtests.anywhere import attach
from crashtests.completeness import Lives, at_calls, at_lines
from crashtests.planted import Edit
from crashtests.schedule import Schedule, parse

pytestmark = pytest.mark.slow

# A resume that asks verify and runs a call; a start over an earlier run; a start, with a response that is not taken.
SCRIPTS = ("[mail put] end > after-effect:1", "over [pay] end", "[!max_tokens pay] end")
# Resumes from a start, from point A, and from a second call; results of every kind; a pause, a refusal, unknowns.
MORE_SCRIPTS = (
    *("[read pay] end", "[thinking pay][put mail] end", "[ghost deny] end", "[pause][pay] end", "[pay] refusal"),
    *("[pay] end > after-start-save:1", "[pay put] end > after-save-a:1", "[pay blind] end > after-effect:2"),
    *("over [pay] end > after-effect:1", "[pay][!max_tokens pay] end > after-stop-save:1"),
)

START = parse("v1 json marks [pay] end")
SAVED = """        self._write_ledger(Ledger(checkpoint.run_id), "start-ledger")\n"""
A_NOTE = (
    SAVED
    + """        with open(self.directory / "task.txt", "w") as note:\n            note.write(checkpoint.task)\n"""
)
A_NOTE_IN_ONE_LINE = SAVED + """        (self.directory / "task.txt").write_text(checkpoint.task)\n"""


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    """Lives of the harness as it is."""
    with Lives() as made:
        yield made


def bases(*scripts: str, protocol: str = "marks") -> list[Schedule]:
    """The scripts on both stores."""
    return [parse(f"v1 {store} {protocol} {script}") for store in ("json", "sqlite") for script in scripts]


def needs_strace() -> None:
    """Skip where strace is not, or may not attach."""
    try:
        with attach(["-o", os.devnull]) as tracer:
            tracer.terminate()
    except (OSError, RuntimeError) as error:
        pytest.skip(f"needs strace, on Linux: {error}")


def test_killed_at_any_line(lives: Lives) -> None:
    """At every line of the harness that these lives execute, once, and wherever files have changed since the last."""
    places = [str(place) for base in bases(*SCRIPTS) for place in at_lines(base, lives)]

    assert [] == places
    assert {"loop", "settle", "reconcile", "ledger", "store", "json_store", "sqlite_store", "durable"} <= lives.modules


def test_killed_before_any_system_call(lives: Lives) -> None:
    """Every call with which these lives change a name or the content of a file of their run."""
    needs_strace()
    counts = [len(lives.calls(base)) for base in bases(*SCRIPTS)]
    places = [str(place) for base in bases(*SCRIPTS) for place in at_calls(base, lives)]

    assert [] == places
    assert min(counts) > 10


@pytest.mark.soak
@pytest.mark.parametrize("protocol", ["marks", "no-marks"])
@pytest.mark.parametrize("script", [*SCRIPTS, *MORE_SCRIPTS])
def test_killed_at_every_line(script: str, protocol: str, lives: Lives) -> None:
    """Every line, each time that it is executed, and every system call, in more scripts and both protocols."""
    needs_strace()
    both = bases(script, protocol=protocol)

    assert [] == [str(place) for base in both for place in at_lines(base, lives, every=True)]
    assert [] == [str(place) for base in both for place in at_calls(base, lives)]


def test_a_write_without_a_crash_point_at_a_line() -> None:
    """A new file that is opened in one line and written in the next leaves an empty one between them."""
    with Lives(Edit("harness.json_store", SAVED, A_NOTE)) as lives:
        (place,) = islice(at_lines(START, lives), 1)

    assert "('task.txt', b'')" in str(place)


def test_a_crash_point_that_is_gone() -> None:
    """Without the crash points between the moves of a fresh start, what they leave is left by none."""
    edit = Edit("harness.store", "                crash_point(label)\n", "                pass\n")
    with Lives(edit) as lives:
        (place,) = islice(at_lines(parse("v1 json marks over [pay] end"), lives), 1)

    assert str(place.schedule).startswith("v1 json marks over [pay] end > durable.")
    assert "set-aside-1.unfinished" in str(place)


def test_a_write_without_a_crash_point_in_one_line() -> None:
    """A new file that is written in one line is empty only between two system calls."""
    needs_strace()
    with Lives(Edit("harness.json_store", SAVED, A_NOTE_IN_ONE_LINE)) as lives:
        (place,) = islice(at_calls(START, lives), 1)

    assert str(place.schedule).startswith("v1 json marks [pay] end > write:")
    assert "('task.txt', b'')" in str(place)
