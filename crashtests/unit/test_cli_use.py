"""What other people's scripts rely on: status, supervision, crash points, stores, state directories, help."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from crashtests.unit.bodies import asks, call, says
from crashtests.unit.cli import DEMO_DONE, KILLED, report_ids, run_cli, snapshot, write_script
from crashtests.unit.cli_tools import MODULE, effects
from crashtests.unit.surroundings import become_nobody
from harness.crash import crash_points, parse_crash_after

STORES = ("json", "sqlite")
both_stores = pytest.mark.parametrize("store", STORES)


@pytest.mark.parametrize(
    ("crash_after", "status"),
    [
        ("after-start-save", "running turn=0 pending=none"),
        ("after-save-a:3", "running turn=3 pending=write_report(not recorded)"),
        ("after-started-mark", "running turn=3 pending=write_report(started)"),
        ("after-effect-write:3", "running turn=3 pending=write_report(finished)"),
        ("after-save-b:3", "running turn=3 pending=none"),
        ("after-final-save", "done turn=3 pending=none"),
    ],
)
@both_stores
def test_status(store: str, crash_after: str, status: str, fast_path: Path) -> None:
    """`--status` says how far the run is and what is known of each pending call, and changes nothing."""
    assert KILLED == run_cli("--store", store, cwd=fast_path, crash_after=crash_after).status
    before = snapshot(fast_path)

    for options in ((), ("--live",)):  # a supervisor adds --status to its own command line
        assert (0, f"[status] {status} unknowns=none") == run_cli("--status", *options, cwd=fast_path).end
    assert before == snapshot(fast_path)


@both_stores
def test_status_of_unknowns_and_stops(store: str, fast_path: Path) -> None:
    """`--status` names the calls whose state nobody knows, and says why a run stopped."""
    cut = {"content": [], "stop_reason": "max_tokens"}
    script = write_script(fast_path, asks(call("a"), call("b")), cut)
    run = ("--tools", MODULE, "--script", script, "--store", store)
    assert KILLED == run_cli(*run, cwd=fast_path, crash_after="after-tool").status
    assert KILLED == run_cli("--resume", *run, cwd=fast_path, crash_after="after-effect-write").status

    assert (0, "[status] running turn=1 pending=act(finished),act(not recorded) unknowns=a") == run_cli(
        "--status", cwd=fast_path
    ).end

    assert 3 == run_cli("--resume", *run, cwd=fast_path).status

    why = "the response was cut short: stop_reason 'max_tokens'"
    stopped = f"[status] stopped turn=1 pending=none unknowns=a reason: {why}"

    assert (0, stopped) == run_cli("--status", cwd=fast_path).end
    assert ["act a", "act b"] == effects(fast_path)


@both_stores
def test_supervisor(store: str, fast_path: Path) -> None:
    """The same command line again and again, each life killed elsewhere, comes to 0 with everything done once."""
    every_fifth = list(crash_points(store))[::5]
    runs, kills = 0, 0
    while every_fifth:
        directory = fast_path / str(runs)
        directory.mkdir()
        status = KILLED
        while status == KILLED:
            crash_after = every_fifth.pop(0) if every_fifth else None
            ran = run_cli("--resume-or-start", "--store", store, cwd=directory, crash_after=crash_after)
            status = ran.status
            kills += status == KILLED

        assert (0, DEMO_DONE) == ran.end
        assert 1 == len(report_ids(directory))
        runs += 1

    assert kills >= 5
    assert (0, DEMO_DONE) == run_cli("--resume-or-start", cwd=directory).end
    assert 1 == len(report_ids(directory))


@both_stores
def test_list_crash_points(store: str, fast_path: Path) -> None:
    """A line each: the label, then what is on disk; every one can be given to CRASH_AFTER."""
    listed = run_cli("--list-crash-points", "--store", store, cwd=fast_path)
    rows = [(line.split()[0], line.split(maxsplit=1)[1]) for line in listed.lines]

    assert (0, "") == (listed.status, listed.err)
    assert crash_points(store) == dict(rows)
    assert [(label, 1) for label, _ in rows] == [parse_crash_after(label) for label, _ in rows]
    assert {} == snapshot(fast_path)


def test_crash_point_that_is_not_reached(fast_path: Path) -> None:
    """A kill that was armed and did not happen is told on stderr, since a test that relies on it would be vacuous."""
    ran = run_cli(cwd=fast_path, crash_after="after-tool:4")

    assert (0, DEMO_DONE) == ran.end
    assert "warning: CRASH_AFTER=after-tool:4 was not reached: this life passed it 3 times\n" == ran.err


@both_stores
def test_without_started_marks(store: str, fast_path: Path) -> None:
    """The lesson's own protocol: a pending side effect may always have begun; it is stored with the run."""
    run = ("--tools", MODULE, "--script", write_script(fast_path, asks(call("a")), says("Done.")), "--store", store)
    start = run_cli(*run, "--no-started-marks", cwd=fast_path, crash_after="after-save-a")

    assert KILLED == start.status

    resumed = run_cli("--resume", *run, cwd=fast_path)  # the run knows its protocol

    assert (0, '[done] turns=1 tokens_used=30 unknowns=1 answer="Done."') == resumed.end
    assert "name=act may have begun: its state is unknown, not running it again" in resumed.out
    assert [] == effects(fast_path)


def test_without_started_marks_no_mark_is_written(fast_path: Path) -> None:
    """Without started marks the crash points of the mark are never passed."""
    for label in ("after-started-mark", "started.renamed"):
        ran = run_cli("--no-started-marks", "--state", label, cwd=fast_path, crash_after=label)

        assert (0, f"warning: CRASH_AFTER={label}:1 was not reached: this life passed it 0 times\n") == (
            ran.status,
            ran.err,
        )


def test_store_that_is_there(fast_path: Path) -> None:
    """The store is the one that is there; to ask for the other is refused, and names the way out."""
    assert KILLED == run_cli("--store", "sqlite", cwd=fast_path, crash_after="after-save-a").status
    before = snapshot(fast_path)

    for options in (("--resume",), ("--status",), ()):
        status, last_line = run_cli("--store", "json", *options, cwd=fast_path).end

        why = "this directory holds a sqlite run; pass --store sqlite, or use another directory"

        assert (4, f"[refused] {fast_path}/.harness/state.sqlite3: {why}") == (status, last_line)
    assert before == snapshot(fast_path)
    assert list(crash_points("sqlite")) == [
        line.split()[0] for line in run_cli("--list-crash-points", cwd=fast_path).lines
    ]

    afresh = run_cli(cwd=fast_path)

    assert f"[start] an earlier run was set aside in {fast_path}/.harness/set-aside-1" == afresh.lines[0]
    assert (0, DEMO_DONE) == afresh.end
    assert (fast_path / ".harness/set-aside-1/state.sqlite3").exists()
    assert not (fast_path / ".harness/checkpoint.json").exists()


@pytest.mark.parametrize(
    "state", ["a/b/c", "with spaces and 'quotes'", "./x/../y", "link/below", "link", "-leading", "caf\udce9", ".", "~"]
)
@both_stores
def test_odd_state_directories(store: str, state: str, fast_path: Path) -> None:
    """Nested, relative, linked, oddly named: a state directory is taken literally, made if missing, and private."""
    (fast_path / "x").mkdir()
    (fast_path / "elsewhere").mkdir(mode=0o700)
    (fast_path / "link").symlink_to("elsewhere")
    killed = run_cli(f"--state={state}", "--store", store, cwd=fast_path, crash_after="after-save-a:2")

    assert KILLED == killed.status
    assert (0, DEMO_DONE) == run_cli(f"--state={state}", "--resume", cwd=fast_path).end
    assert 0o700 == (fast_path / state).stat().st_mode & 0o777
    assert {"checkpoint.json", "state.sqlite3"} & set(os.listdir(fast_path / state))


def test_directory_that_may_not_be_written(fast_path: Path) -> None:
    """3: nowhere to put the state is a failed write, and nothing was run; 4: state that may not be read is refused."""
    script = write_script(fast_path, asks(call("a")), says("Done."))
    (fast_path / "closed").mkdir()
    (fast_path / "closed").chmod(0)
    fast_path.chmod(0o555)
    options = ("--tools", MODULE, "--script", script)
    try:
        unwritable = run_cli(*options, cwd=fast_path, before=(become_nobody,)).end
        closed = [
            run_cli(*options, *how, "--state", "closed", cwd=fast_path, before=(become_nobody,)).end
            for how in ((), ("--resume",), ("--store", "sqlite", "--resume"))
        ]
    finally:
        fast_path.chmod(0o755)
        (fast_path / "closed").chmod(0o755)

    directory = f"{fast_path}/.harness"
    why = f"could not write 'directory' to {directory}: [Errno 13] Permission denied: '{directory}'"
    assert (3, f"[stopped] {why}; what was saved before it is intact") == unwritable
    assert [(4, "[refused] closed: may not be read; check its owner and permissions")] * 3 == closed
    assert [] == effects(fast_path)


@both_stores
def test_tool_that_changes_directory(store: str, fast_path: Path) -> None:
    """A run stays where it was started, and leaves the one alone that is where a tool has gone."""
    here, there = fast_path / "here", fast_path / "there"
    here.mkdir()
    there.mkdir()
    assert KILLED == run_cli("--store", store, cwd=there, crash_after="after-effect-write:3").status
    before = snapshot(there)
    script = write_script(here, asks(call("a", "go", to=str(there))), says("gone"))
    run = ("--tools", MODULE, "--script", script, "--store", store)

    assert (0, '[done] turns=1 tokens_used=30 unknowns=0 answer="gone"') == run_cli(*run, cwd=here).end
    assert (0, "[status] done turn=1 pending=none unknowns=none") == run_cli("--status", cwd=here).end
    assert before == snapshot(there)


@pytest.mark.parametrize("asked", STORES)
@pytest.mark.parametrize("left", ["state.sqlite3-wal", "effects.json"])
def test_half_of_a_run(left: str, asked: str, fast_path: Path) -> None:
    """What is left of a run whose checkpoint is lost is never taken for no run at all: its effects would come again."""
    store = "json" if left == "effects.json" else "sqlite"
    assert KILLED == run_cli("--store", store, cwd=fast_path, crash_after="after-save-b:3").status
    for path in (fast_path / ".harness").iterdir():
        if path.name != left:
            path.unlink()
    before = snapshot(fast_path)

    for options in (("--resume-or-start",), ("--resume",), ("--status",), ("--store", asked, "--resume-or-start")):
        status, last_line = run_cli(*options, cwd=fast_path).end

        assert 4 == status
        assert "is missing" in last_line or f"this directory holds a {store} run; pass --store {store}" in last_line
        assert before == snapshot(fast_path)


@both_stores
def test_finished_run_however_it_was_started(store: str, fast_path: Path) -> None:
    """A finished run says its answer again to whoever resumes it: nobody is asked, so nobody has to be named."""
    run = ("--tools", MODULE, "--script", write_script(fast_path, asks(call("a")), says("ok")), "--store", store)
    done = run_cli(*run, cwd=fast_path).end
    before = snapshot(fast_path / ".harness")

    assert 0 == done[0]
    for options in ((), ("--live",)):
        assert done == run_cli("--resume", *options, cwd=fast_path, env={"ANTHROPIC_API_KEY": "of-a-test"}).end
    assert before == snapshot(fast_path / ".harness")
    assert ["act a"] == effects(fast_path)


def test_tool_that_fails(fast_path: Path) -> None:
    """A person is told what the model is told: the demonstration ends the same, and its report could not be written."""
    (fast_path / "report.txt").mkdir()
    ran = run_cli(cwd=fast_path)

    assert (0, DEMO_DONE) == ran.end
    assert re.fullmatch(
        r"warning: write_report \(toolu_\w+\) failed, and the model is told so: IsADirectoryError: .*\n", ran.err
    )


def test_help(fast_path: Path) -> None:
    """`--help` names every option, the exit statuses and the environment, and fits a terminal."""
    shown = run_cli("--help", cwd=fast_path, env={"COLUMNS": "100"})
    options = "resume resume-or-start status list-crash-points state store task tools script live model turns-max"

    assert (0, "") == (shown.status, shown.err)
    for option in (*options.split(), "no-started-marks"):
        assert re.search(rf"^  --{option}\b", shown.out, re.MULTILINE), option
    assert all(f"  {status} " in shown.out for status in (0, 2, 3, 4, 130, 143, 137))
    assert "CRASH_AFTER=label[:n]" in shown.out
    assert max(len(line) for line in shown.lines) <= 100
