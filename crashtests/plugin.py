"""The pytest side of the campaign: its options, its session seed, the order of its tests, and the merged summary.

Workers of pytest-xdist each tally what they covered; the controller merges the tallies, holds the whole against the
coverage gates, and prints the table. A session that was cut down (`-k`, `-x`, a path, one replay) says so instead of
checking gates that it cannot meet.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from crashtests.campaign import Campaign, Tally
from crashtests.environments import NotInstalled, python_of
from crashtests.execute import OURS, executor
from crashtests.failure import PROPERTY, gravest
from crashtests.forkserver.client import ForkServerError
from crashtests.powerloss import trace
from crashtests.schedule import ScheduleError, parse
from crashtests.subject import SubjectError, load_subject
from crashtests.summary import Session, gates, summary
from crashtests.sweep import BOUNDS
from crashtests.workers import keep_to_one_core

# Tests that judge a subject, in the order in which they run; all others are unit tests and run last.
_ORDER = ("test_regressions", "test_canary", "test_sweep", "test_powerloss", "test_machine", "test_wire")

_TALLIES = pytest.StashKey[list[dict[str, Any]]]()
_BEGIN = pytest.StashKey[float]()
_CUT = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("crashtests", "crash campaign")
    group.addoption(
        "--crash-seed", type=int, metavar="N", help="session seed: what is drawn and swept (default: a fresh one)"
    )
    group.addoption("--crash-profile", choices=[*BOUNDS], default="default", help="default: the minute")
    group.addoption("--crash-minutes", type=float, default=10.0, metavar="M", help="budget of the soak's machine")
    group.addoption("--replay", metavar="SCHEDULE", help="run exactly this schedule and print its timeline")
    group.addoption("--subject", metavar="PATH.py:NAME", help="judge this crashtests.subject.Subject (default: ours)")
    group.addoption("--slow", action="store_true", help="run the tests marked slow, and only those")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes seconds and more; run by --slow, and by nothing else")
    config.addinivalue_line("markers", "soak: takes many minutes in all; run by --slow --crash-profile=soak")
    config.stash[_TALLIES] = []
    config.stash[_BEGIN] = time.monotonic()
    if hasattr(config, "workerinput"):
        config.option.crash_seed = config.workerinput["crash_seed"]
        if not config.option.slow:  # whose tests start sessions of their own, with workers of their own
            keep_to_one_core(int(config.workerinput["workerid"].removeprefix("gw")))
        return
    if config.option.crash_seed is None:
        config.option.crash_seed = int.from_bytes(os.urandom(4))
    try:
        if config.option.replay:
            parse(config.option.replay)
        if config.option.subject:
            python_of(load_subject(config.option.subject).environment)
    except (ScheduleError, SubjectError, NotInstalled) as error:
        raise pytest.UsageError(str(error)) from error


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Every worker searches from the seed of the session."""
    node.workerinput["crash_seed"] = node.config.option.crash_seed


def pytest_report_header(config: pytest.Config) -> str:
    says = f"crash campaign: --crash-seed {config.option.crash_seed}, profile {config.option.crash_profile}"
    # A test that is skipped is easily overlooked.
    return says + (f"; {trace.missing()}" if config.option.slow and trace.missing() else "")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--replay` only the replay is collected, with `--subject` only what judges a subject."""
    if collection_path.suffix != ".py":
        return None
    return None if _wanted(collection_path.stem, config) else True


def _wanted(module: str, config: pytest.Config) -> bool:
    if config.option.replay or module == "test_replay":
        return bool(config.option.replay) and module == "test_replay"
    return not config.option.subject or module in ("test_sweep", "test_powerloss", "test_machine")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests by themselves; of the others regressions first, unit tests last."""
    soak = config.option.crash_profile == "soak"
    slow = [item for item in items if item.get_closest_marker("slow") or item.get_closest_marker("soak")]
    others = [item for item in items if item not in slow]
    items[:], left_out = (slow, others) if config.option.slow else (others, slow)
    if config.option.slow and not soak:
        left_out = left_out + [item for item in items if item.get_closest_marker("soak")]
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    rank = {name: place for place, name in enumerate(_ORDER)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


@pytest.fixture(scope="session")
def campaign(request: pytest.FixtureRequest) -> Iterator[Campaign]:
    """The campaign of this process against the chosen subject; its tally goes to the controller."""
    with ExitStack() as stack:
        try:
            execute = stack.enter_context(executor(request.config.option.subject or OURS))
        except (SubjectError, ForkServerError) as error:
            pytest.fail(str(error), pytrace=False)
        running = Campaign(execute)
        yield running
        tally = running.tally.to_json()
    output = getattr(request.config, "workeroutput", None)
    if output is None:
        request.config.stash[_TALLIES].append(tally)
    else:
        output["crash_tally"] = tally


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker that ended hands in its tally; one that died cannot, and xdist makes the session red for it."""
    if tally := getattr(node, "workeroutput", {}).get("crash_tally"):
        node.config.stash[_TALLIES].append(tally)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A full session whose gates are not met is red, whatever its tests say."""
    config = session.config
    if hasattr(config, "workerinput"):
        return
    config.stash[_CUT] = _cut(config, exitstatus)
    if not config.stash[_CUT] and exitstatus == 0 and gates(_session(config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _cut(config: pytest.Config, exitstatus: int) -> str:
    """Why this session is a partial one, or nothing."""
    for name, given in (
        ("--replay", config.option.replay),
        ("--slow", config.option.slow),
        ("-k", config.option.keyword),
        ("-m", config.option.markexpr),
        ("--deselect", config.option.deselect),
        ("--lf or --ff", config.getoption("lf", False)),
        ("--collect-only", config.option.collectonly),
    ):
        if given:
            return f"{name} was given"
    whole = {str(config.rootpath), str(config.rootpath / "crashtests")}
    paths = [str((config.invocation_params.dir / arg.split("::")[0]).resolve()) for arg in config.args]
    if not any(path in whole for path in paths) or any("::" in arg for arg in config.args):
        return "only a part of the tests was asked for"
    return f"the session ended early or red (status {exitstatus})" if exitstatus != 0 else ""


def _session(config: pytest.Config) -> Session:
    tally = Tally()
    for part in config.stash[_TALLIES]:
        tally.merge(part)
    subject = load_subject(config.option.subject or OURS)
    seconds = time.monotonic() - config.stash[_BEGIN]
    return Session(subject, tally, config.option.crash_profile, config.option.crash_seed, seconds)


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    properties = [each for report in reports for each in report.user_properties]
    for text in (value for name, value in properties if name == "timeline"):
        terminalreporter.section("timeline")
        terminalreporter.write_line(text)
    if failures := [value for name, value in properties if name == PROPERTY]:
        terminalreporter.section(f"the contract is broken: the gravest and smallest of {len(failures)} failures")
        terminalreporter.write_line(gravest(failures))
    if not config.stash[_TALLIES]:
        return
    if config.option.replay:
        terminalreporter.write_line(f"partial campaign: gates not checked ({config.stash[_CUT]})")
        return
    session = _session(config)
    terminalreporter.section("crash campaign")
    terminalreporter.write_line(summary(session))
    if cut := config.stash.get(_CUT, ""):
        terminalreporter.write_line(f"partial campaign: gates not checked ({cut})")
        return
    missed = gates(session)
    for gate in missed:
        terminalreporter.write_line(f"GATE NOT MET: {gate}", red=True)
    if not missed:
        terminalreporter.write_line("gates: all met")
