"""Real processes, real signals: the command line interrupted, held, watched and cut off from its streams."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crashtests.unit.bodies import asks, call, says
from crashtests.unit.cli import (
    DEMO_DONE,
    KILLED,
    PYTHON_M_HARNESS,
    Ran,
    cold,
    cold_env,
    report_ids,
    run_cli,
    snapshot,
    write_script,
)
from crashtests.unit.cli_tools import INSIDE_FD, MODULE, effects
from crashtests.unit.surroundings import break_stdout, close_stdout, close_streams, owner_finishes
from harness import cli

STORES = ("json", "sqlite")
both_stores = pytest.mark.parametrize("store", STORES)

WAITS = (asks(call("a"), call("w", "wait")), says("Done."))
DONE_WITH_ONE_UNKNOWN = '[done] turns=1 tokens_used=30 unknowns=1 answer="Done."'
TOOLS = ("--tools", MODULE, "--script", "script.json")


@contextmanager
def inside_a_tool(directory: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A live process whose second call is running; it is gone at the end, whatever the test does."""
    write_script(directory, *WAITS)
    read_end, write_end = os.pipe()
    with subprocess.Popen(
        [*PYTHON_M_HARNESS, *TOOLS, *options],
        cwd=directory,
        env=cold_env(env={INSIDE_FD: str(write_end)}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=[write_end],
        # A shell that puts a command into the background has it ignore Ctrl-C, and what that starts as well.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            os.close(write_end)
            with open(read_end, "rb") as inside:
                assert b"!" == inside.read(1), end_of(process)
            yield process
        finally:
            process.kill()


def end_of(process: subprocess.Popen[str]) -> Ran:
    out, err = process.communicate(timeout=60)
    return Ran(process.returncode, out, err)


@pytest.mark.parametrize(
    ("signal_number", "status", "why"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")]
)
def test_signal_inside_a_tool(signal_number: int, status: int, why: str, fast_path: Path) -> None:
    """130 and 143: a signal inside a tool is no result of it; the resume says unknown of that call, and only of it."""
    with inside_a_tool(fast_path) as process:
        process.send_signal(signal_number)
        ended = end_of(process).end

    assert (status, f"[stopped] {why}; the state is as after a kill, --resume goes on") == ended
    assert (0, DONE_WITH_ONE_UNKNOWN) == run_cli("--resume", *TOOLS, cwd=fast_path).end
    assert ["act a", "wait w"] == effects(fast_path)


@both_stores
def test_held_by_a_live_process(store: str, fast_path: Path) -> None:
    """4: a live process keeps everyone else out, may be looked at, and a kill from outside lets the next one in."""
    with inside_a_tool(fast_path, "--store", store) as process:
        before = snapshot(fast_path)
        for options in (("--resume",), ("--resume-or-start",), ()):
            refused = run_cli(*options, *TOOLS, cwd=fast_path).end
            why = "a live process owns this run; wait for it to end, or end it; the lock goes with the process"

            assert (4, f"[refused] {fast_path}/.harness: {why}") == refused

        status = "[status] running turn=1 pending=act(finished),wait(started) unknowns=none"

        assert (0, status) == run_cli("--status", cwd=fast_path).end
        assert before == snapshot(fast_path)

        process.kill()

        assert ["[turn 1][save A] pending=act,wait"] == end_of(process).lines
        assert -signal.SIGKILL == process.returncode
    assert (0, DONE_WITH_ONE_UNKNOWN) == run_cli("--resume", *TOOLS, cwd=fast_path).end
    assert ["act a", "wait w"] == effects(fast_path)


@both_stores
def test_status_while_the_owner_writes(store: str, fast_path: Path) -> None:
    """Files of different moments are not taken for damage, nor for a state that never was: status looks again."""
    early, late = fast_path / "early", fast_path / "late"
    assert KILLED == run_cli("--store", store, "--state", "early", cwd=fast_path, crash_after="after-save-b:2").status
    shutil.copytree(early, late)
    assert (0, DEMO_DONE) == run_cli("--resume", "--state", "late", cwd=fast_path).end

    seen = run_cli("--status", "--state", "early", cwd=fast_path, before=(owner_finishes, str(early), str(late)))

    assert (0, "[status] done turn=3 pending=none unknowns=none") == seen.end


@pytest.mark.parametrize("lose", [break_stdout, close_streams])
def test_without_stdout(lose: Callable[[], None], fast_path: Path) -> None:
    """A stdout that is gone or was never there changes nothing: a run ends with 0, and a kill is a kill."""
    for crash_after in ("save-a.half-written:2", "after-effect-write:3"):
        assert KILLED == run_cli(cwd=fast_path, crash_after=crash_after, before=(lose,)).status
    assert 0 == run_cli("--resume", cwd=fast_path, before=(lose,)).status
    assert 1 == len(report_ids(fast_path))


def test_reader_that_leaves(fast_path: Path) -> None:
    """`| head -1` shows the first line, and the run goes on to its end."""
    script = '{ "$0" -m harness; echo "status $?" >&2; } | head -1'
    command = ["sh", "-c", script, PYTHON_M_HARNESS[0]]
    shell = subprocess.run(command, cwd=fast_path, env=cold_env(), capture_output=True, text=True, check=False)

    assert ("[turn 1][save A] pending=read_notes\n", "status 0\n") == (shell.stdout, shell.stderr)
    assert 1 == len(report_ids(fast_path))


def test_no_file_gets_the_number_of_a_closed_stream(fast_path: Path) -> None:
    """A file that a tool keeps open does not become stdout, and so does not get our lines."""
    (fast_path / "mine.py").write_text(f"log = open('tool.log', 'w')\nfrom {MODULE} import TOOLS\n")
    script = write_script(fast_path, asks(call("a")), says("Done."))

    ran = run_cli("--tools", "mine.py", "--script", script, cwd=fast_path, before=(close_stdout,))

    assert (0, "") == (ran.status, (fast_path / "tool.log").read_text())


def test_what_tools_print_comes_before_the_last_line(fast_path: Path) -> None:
    """A tool's prints stand where it ran, not behind the last line; lost with stdout, they change no exit status."""
    script = write_script(fast_path, asks(call("a", "shout")), says("Done."))
    options = ("--tools", MODULE, "--script", script)

    assert [
        "[turn 1][save A] pending=shout",
        "the tool was here",
        "[turn 1][save B]",
        '[done] turns=1 tokens_used=30 unknowns=0 answer="Done."',
    ] == cold(*options, cwd=fast_path).lines
    assert (0, "") == _status_and_out(run_cli(*options, "--state", "again", cwd=fast_path, before=(break_stdout,)))


def _status_and_out(ran: Ran) -> tuple[int, str]:
    return ran.status, ran.out


def test_a_second_sigterm_does_not_interrupt_the_report_of_the_first() -> None:
    """A supervisor that asks twice still reads how the run has ended."""
    before = signal.signal(signal.SIGTERM, cli._terminate)
    try:
        with pytest.raises(cli._Terminated):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
