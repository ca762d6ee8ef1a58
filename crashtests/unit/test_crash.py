"""Crash points: the rows say what the code does, a disarmed one costs next to nothing, an armed one kills."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import harness
from crashtests.unit.lives import killed
from harness import Result
from harness.crash import (
    COMMIT_STAGES,
    FILE_STAGES,
    LOOP_POINTS,
    SET_ASIDE_POINTS,
    WRITES,
    Armed,
    crash_point,
    crash_points,
    listen,
    parse_crash_after,
)
from harness.store import STORE_FILES

TraceFunction = Callable[[FrameType, str, Any], Any]


@cache
def _source() -> list[ast.Module]:
    return [ast.parse(path.read_text()) for path in Path(harness.__file__).parent.rglob("*.py")]


def _calls(*names: str) -> Iterator[ast.Call]:
    """Every call of a function or method by one of these names, anywhere in the harness."""
    for tree in _source():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                function = node.func
                name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
                # `durable.replace` writes, `"text".replace` does not.
                whose = getattr(getattr(function, "value", None), "id", None)
                if name in names and (name != "replace" or whose == "durable"):
                    yield node


def _labels() -> Counter[str]:
    """The label of every `crash_point(...)` in the source, with a hole where a part of it is computed."""
    labels: Counter[str] = Counter()
    for node in _calls("crash_point"):
        (label,) = node.args
        parts = label.values if isinstance(label, ast.JoinedStr) else [label]
        labels["".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)] += 1
    return labels


def test_every_crash_point_is_passed_at_exactly_one_place() -> None:
    """The tables and the calls in the source are the same labels, each written once."""
    stages = [f"{{}}.{stage}" for stage in (*FILE_STAGES, *COMMIT_STAGES)]
    # "{}" alone is the one place where the store takes the label of a file from its own table.
    expected = Counter([*LOOP_POINTS, *stages, "{}"])

    assert expected == _labels()


def test_every_write_has_its_row() -> None:
    """Each name under which something is written is a row of the table, and each row is written."""
    names = set()
    for node in _calls("save", "record", "replace", "_write_ledger"):
        last = node.args[-1]
        if isinstance(last, ast.Constant):
            names.add(last.value)

    assert set(WRITES) == names


def test_every_file_that_is_set_aside_has_its_row() -> None:
    """The labels of the set-aside table are those that the stores pass, kind by kind."""
    from harness.store import _SET_ASIDE_LABELS

    by_kind = {
        kind: {_SET_ASIDE_LABELS[name] for name in files if name in _SET_ASIDE_LABELS}
        for kind, files in STORE_FILES.items()
    }

    assert {kind: set(points) for kind, points in SET_ASIDE_POINTS.items()} == by_kind


@pytest.mark.parametrize("store", STORE_FILES)
def test_every_label_can_be_given_and_explained(store: str) -> None:
    """Labels are plain words with dots and dashes, and each says what is on disk."""
    for label, on_disk in crash_points(store).items():
        assert re.fullmatch(r"[a-z-]+(\.[a-z-]+)?", label)
        assert (label, 7) == parse_crash_after(f"{label}:7")
        assert on_disk
        assert "{" not in on_disk


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("after-tool", ("after-tool", 1)),
        ("after-tool:1", ("after-tool", 1)),
        ("save-a.half-written:12", ("save-a.half-written", 12)),
        ("save-a.before-commit:2", ("save-a.before-commit", 2)),
        ("set-aside.database-moved", ("set-aside.database-moved", 1)),
    ],
)
def test_crash_after_names_a_label_and_a_pass(text: str, parsed: tuple[str, int]) -> None:
    """`label[:n]`, n from 1, and 1 if it is left out."""
    assert parsed == parse_crash_after(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no crash point ''"),
        (":1", "no crash point ''"),
        ("after-lunch", "no crash point 'after-lunch'"),
        ("after-tool ", "no crash point 'after-tool '"),
        ("save-a", "no crash point 'save-a'"),
        ("save-a.{stage}", "no crash point"),
        ("after-tool:", "whole number from 1"),
        ("after-tool:0", "whole number from 1"),
        ("after-tool:-1", "whole number from 1"),
        ("after-tool:1.5", "whole number from 1"),
        ("after-tool:two", "whole number from 1"),
        ("after-tool:²", "whole number from 1"),
        ("after-tool:1:2", "whole number from 1"),
    ],
)
def test_a_bad_crash_after_is_refused_with_what_is_allowed(text: str, problem: str) -> None:
    """A kill that would never come is an error and not a quiet success."""
    with pytest.raises(ValueError, match=r"^CRASH_AFTER=") as caught:
        parse_crash_after(text)

    assert problem in str(caught.value)


def test_a_disarmed_point_costs_one_comparison() -> None:
    """Disarmed, a crash point executes a handful of instructions of its own and calls nothing."""
    executed: list[str] = []

    def trace(frame: FrameType, event: str, argument: object) -> TraceFunction:
        frame.f_trace_opcodes = True
        if event in ("opcode", "call"):
            executed.append(event if event == "opcode" else frame.f_code.co_name)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        crash_point("after-tool")
    finally:
        sys.settrace(before)

    assert ["crash_point"] == [name for name in executed if name != "opcode"]
    assert executed.count("opcode") < 10


def test_an_armed_point_counts_its_own_passes() -> None:
    """Other labels do not count, and the count can be read by one who wants to know whether it was reached."""
    armed = Armed("after-tool", 3)
    listen(armed)
    try:
        for label in ("after-tool", "before-model", "after-tool", "after-load"):
            crash_point(label)
    finally:
        listen(None)
    crash_point("after-tool")

    assert 2 == armed.passes


@pytest.mark.parametrize("n", [1, 3])
def test_an_armed_point_kills_at_its_nth_pass(n: int) -> None:
    """The process is dead by signal 9 at that pass, with its announcement out; nothing after it ran."""

    def run() -> Result:
        for passed in range(1, 9):
            os.write(1, f"pass {passed}\n".encode())
            crash_point("after-tool")
        raise AssertionError("survived")

    lines = killed(run, "after-tool", n)

    assert [f"pass {passed}" for passed in range(1, n + 1)] == lines
