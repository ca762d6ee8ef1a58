"""The demonstration, killed at every crash point that `--list-crash-points` names, on both stores, and resumed."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from crashtests.unit.cli import (
    DEMO_DONE,
    DEMO_RESPONSES,
    DEMO_SCRIPT,
    KILLED,
    PYTHON_M_HARNESS,
    Ran,
    cold,
    cold_env,
    report_ids,
    run_cli,
)
from harness import crash

# The sweep kills at the same labels; this is the same from the command line.
pytestmark = pytest.mark.slow

STORES = ("json", "sqlite")
EVERY_LABEL = [
    pytest.param(store, label, id=f"{store}-{label}") for store in STORES for label in crash.crash_points(store)
]

# Killed at one of these, a start has not saved its scene: nothing has run, and there is nothing to resume.
_NOT_YET_SAVED = re.compile(r"start-ledger\..*|start\.(half-written|written|synced)|set-aside\..*")

CUT = "cut.json"


@dataclass(frozen=True)
class Scenario:
    """How a life comes to pass a crash point: the kill that ended the life before, if any, and its own options.

    `then`: the options, besides `--resume`, of the life after the kill.
    """

    earlier_kill: str | None
    options: tuple[str, ...]
    then: tuple[str, ...] = ()


FRESH = Scenario(None, ())
OVER_AN_OLD_RUN = Scenario("after-save-a:1", ())
RESUMED_EFFECT_DONE = Scenario("after-tool:3", ("--resume",))
RESUMED_EFFECT_NOT_DONE = Scenario("after-started-mark", ("--resume",))
CUT_SHORT = Scenario(None, ("--script", CUT), ("--script", str(DEMO_SCRIPT)))


def scenarios(label: str) -> list[Scenario]:
    if label in ("after-load", "before-verify", "after-verify"):
        return [RESUMED_EFFECT_DONE, RESUMED_EFFECT_NOT_DONE]
    if label.startswith("set-aside."):
        return [OVER_AN_OLD_RUN]
    return [CUT_SHORT] if label.startswith("stop.") or label == "after-stop-save" else [FRESH]


@pytest.mark.parametrize(("store", "label"), EVERY_LABEL)
def test_killed_at_every_label(store: str, label: str, fast_path: Path) -> None:
    """A kill at any crash point, the 1st, 2nd and 3rd time it is passed, costs nothing and repeats nothing."""
    for number, scenario in enumerate(scenarios(label)):
        passed = passes(scenario, store)[label]
        assert passed, f"{scenario} never passes {label}"
        for n in range(1, min(passed, 3) + 1):
            directory = fast_path / f"{number}-{n}"
            ran = life(scenario, store, directory, f"{label}:{n}")
            assert (KILLED, f"[kill] {label}:{n}") == ran.end
            check_recovery(scenario, store, label, directory)


@cache
def passes(scenario: Scenario, store: str) -> Counter[str]:
    """How often a life that comes to its end passes each crash point."""
    passed: Counter[str] = Counter()
    crash.listen(lambda label: passed.update([label]))
    try:
        with TemporaryDirectory() as directory:
            ran = life(scenario, store, Path(directory) / "life", None)
    finally:
        crash.listen(None)
    assert KILLED != ran.status
    return passed


def life(scenario: Scenario, store: str, directory: Path, crash_after: str | None) -> Ran:
    """The life that is to be killed, if it is, behind the one before it."""
    directory.mkdir()
    cut = {"content": [{"type": "text", "text": "Now I wr"}], "stop_reason": "max_tokens"}
    (directory / CUT).write_text(json.dumps([*DEMO_RESPONSES[:2], cut]))
    if scenario.earlier_kill:
        earlier = run_cli("--store", store, cwd=directory, crash_after=scenario.earlier_kill)
        assert KILLED == earlier.status
    return run_cli("--store", store, *scenario.options, cwd=directory, crash_after=crash_after)


def check_recovery(scenario: Scenario, store: str, label: str, directory: Path) -> None:
    """One resume ends the task; where there is nothing to resume, it is refused and a fresh start does."""
    resumed = run_cli("--resume", *scenario.then, cwd=directory)
    if _NOT_YET_SAVED.fullmatch(label):
        status, last_line = resumed.end
        assert 4 == status
        assert last_line.startswith(f"[refused] {directory}/.harness: ")
        assert "start a run first" in last_line
        resumed = run_cli("--store", store, *scenario.then, cwd=directory)

    assert (0, DEMO_DONE) == resumed.end
    assert "" == resumed.err
    assert 1 == len(report_ids(directory))


@pytest.mark.parametrize("store", STORES)
def test_documented_example(store: str, fast_path: Path) -> None:
    """The example of the documentation prints what it says there, line by line."""
    killed = run_cli("--store", store, cwd=fast_path, crash_after="after-effect-write:3")

    assert [
        "[turn 1][save A] pending=read_notes",
        "[turn 1][save B]",
        "[turn 2][save A] pending=count_words",
        "[turn 2][save B]",
        "[turn 3][save A] pending=write_report",
        "[kill] after-effect-write:3",
    ] == killed.lines
    assert KILLED == killed.status

    [tool_use_id] = report_ids(fast_path)
    resumed = run_cli("--resume", cwd=fast_path)

    assert [
        "[resume] turn=3 pending=write_report",
        f"[resume][reconcile] tool_use_id={tool_use_id} name=write_report "
        "ledger hit: reusing the outcome, not running it again",
        "[turn 3][save B]",
        DEMO_DONE,
    ] == resumed.lines
    assert 0 == resumed.status
    assert [tool_use_id] == report_ids(fast_path)


@pytest.mark.parametrize(
    ("store", "crash_after"),
    [("json", "save-b.written:3"), ("sqlite", "after-tool:3")],
)
def test_killed_in_a_process_of_its_own(store: str, crash_after: str, fast_path: Path) -> None:
    """What the forks show holds for real processes: the kernel says signal 9, and a cold resume goes on."""
    command = [*PYTHON_M_HARNESS, "--store", store]
    killed = subprocess.run(command, cwd=fast_path, env=cold_env(crash_after), capture_output=True, check=False)

    assert -9 == killed.returncode
    assert f"[kill] {crash_after}" == killed.stdout.decode().splitlines()[-1]

    assert (0, DEMO_DONE) == cold("--resume", cwd=fast_path).end
    assert 1 == len(report_ids(fast_path))


def test_killed_as_a_shell_sees_it(fast_path: Path) -> None:
    """A shell shows exit status 137."""
    script = '"$0" -m harness; echo "status $?"'
    command = ["sh", "-c", script, PYTHON_M_HARNESS[0]]
    shell = subprocess.run(command, cwd=fast_path, env=cold_env("after-save-a"), capture_output=True, check=False)

    assert ["[kill] after-save-a:1", "status 137"] == shell.stdout.decode().splitlines()
