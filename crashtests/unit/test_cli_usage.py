"""Wrong usage of the command line: exit status 2, a last line that says what to do, and nothing done."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from crashtests.unit.bodies import says
from crashtests.unit.cli import PYTHON_M_HARNESS, Ran, cold_env, run_cli, snapshot, write_script
from crashtests.unit.cli_tools import MODULE

KEY = {"ANTHROPIC_API_KEY": "of-a-test"}


def check_wrong(cwd: Path, options: tuple[str, ...], says_why: str, env: dict[str, str] | None = None) -> None:
    """These options are refused as wrong usage, in one line that says so, and leave no trace."""
    before = snapshot(cwd)
    ran = run_cli(*options, cwd=cwd, env=env)

    assert (2, "") == (ran.status, ran.err), (options, env)
    assert 1 == len(ran.lines), (options, env)
    assert ran.out.startswith("[usage] "), (options, env)
    assert says_why in ran.out, (options, env)
    assert before == snapshot(cwd), (options, env)


COMBINATIONS = [
    (("--resume", "--task", "x"), "a run keeps the task it was started with; leave it out, or start afresh"),
    (("--resume", "--resume-or-start"), "argument --resume-or-start: not allowed with argument --resume"),
    (("--status", "--resume"), "not allowed with argument"),
    (("--live", "--script", "script.json"), "--live and --script exclude each other"),
    (("--model", "m"), "--model m needs --live"),
    (("--model", "", "--resume"), "needs --live"),
    (("--tools", MODULE), "--tools needs a --task"),
    (("--tools", MODULE, "--resume-or-start"), "--tools needs a --task"),
    (("--task", "x"), "--task needs a model that can do it: --live asks Claude, --script FILE plays a script"),
    (("--task", "", "--script", "script.json"), "task='': a text that is not blank is needed"),
    (("--task", " \n", "--script", "script.json"), "task=' \\n': a text that is not blank is needed"),
    (("--task", "a\udcff", "--script", "script.json"), "task='a\\udcff' holds a lone surrogate"),
    (("--task", "", "--script", "script.json", "--resume-or-start"), "task='': a text that is not blank is needed"),
    (("--turns-max", "0"), "argument --turns-max: '0' is not a whole number from 1"),
    (("--turns-max", "-1"), "argument --turns-max: "),
    (("--turns-max", "1.5"), "'1.5' is not a whole number from 1"),
    (("--turns-max", "٣"), "'٣' is not a whole number from 1"),
    (("--turns-max", "9" * 5000), "argument --turns-max: "),
    (("--store", "redis"), "argument --store: invalid choice: 'redis'"),
    (("--bogus",), "unrecognized arguments: --bogus; --help says what is allowed"),
    (("--res",), "unrecognized arguments: --res; --help says what is allowed"),
    (("stray", "\udcff"), "unrecognized arguments: stray \\udcff"),
    (("--state",), "argument --state: expected one argument"),
    (("--state", ""), "--state '' names no directory"),
    (("--state", "", "--status"), "--state '' names no directory"),
    (("--state", "x" * 300), "File name too long"),
    (("--state", "script.json"), "--state 'script.json' is not a directory"),
    (("--state", "script.json", "--resume"), "--state 'script.json' is not a directory"),
    (("--state", "script.json", "--status"), "--state 'script.json' is not a directory"),
    (("--state", "script.json/below"), "--state 'script.json/below': Not a directory"),
]


def test_wrong_options(fast_path: Path) -> None:
    """Options that cannot mean anything are refused before anything is done."""
    write_script(fast_path, says("Done."))
    for options, says_why in COMBINATIONS:
        check_wrong(fast_path, options, says_why)


def test_live_without_a_key(fast_path: Path) -> None:
    """`--live` without an API key says so; an empty one is none."""
    check_wrong(fast_path, ("--live",), "--live needs ANTHROPIC_API_KEY in the environment")
    check_wrong(fast_path, ("--live",), "--live needs ANTHROPIC_API_KEY", {"ANTHROPIC_API_KEY": ""})


CRASH_AFTERS = {
    "nowhere": "no crash point 'nowhere'; --list-crash-points names them all",
    "\udcff": "--list-crash-points names them all",
    ":1": "no crash point ''",
    "after-tool:": "n must be a whole number from 1, as in after-tool:2",
    "after-tool:0": "n must be a whole number from 1",
    "after-tool:x": "n must be a whole number from 1",
    "after-tool:-1": "n must be a whole number from 1",
    "after-tool:1:2": "n must be a whole number from 1",
    "after-tool:" + "9" * 5000: "",
}


def test_wrong_crash_after(fast_path: Path) -> None:
    """CRASH_AFTER that names no crash point, or no n, is refused: a kill that can never come would look survived."""
    for crash_after, says_why in CRASH_AFTERS.items():
        check_wrong(fast_path, (), says_why, {"CRASH_AFTER": crash_after})


TOOL_FILES = {
    "syntax": ("def", "SyntaxError: "),
    "no-list": ("import harness", "has no attribute 'TOOLS'"),
    "no-sequence": ("TOOLS = {}", "TOOLS is a dict, not a list of harness.Tool"),
    "no-tool": ("TOOLS = ['look']", "'look' is not a harness.Tool"),
    "same-name": (f"from {MODULE} import TOOLS as tools\nTOOLS = tools + tools", "two tools are named 'look'"),
    "bad-tool": ("import harness\nharness.Tool('a b', '', {}, print)", "tool name 'a b' is not 1 to 64"),
    "raises": ("raise ValueError('first line\\nsecond line')", "ValueError: first line second line"),
    "exits": ("raise SystemExit(7)", "SystemExit: 7"),
    "cancels": ("import asyncio\nraise asyncio.CancelledError", "CancelledError"),
}


@pytest.mark.parametrize(("source", "says_why"), TOOL_FILES.values(), ids=TOOL_FILES)
def test_wrong_tools_file(source: str, says_why: str, fast_path: Path) -> None:
    """A tools file that cannot be used is named with what is wrong, whatever it raises."""
    (fast_path / "mine.py").write_text(source)
    options = ("--tools", "./mine.py", "--script", write_script(fast_path, says("Done.")))
    check_wrong(fast_path, options, says_why)


def test_no_tools_file(fast_path: Path) -> None:
    """A tools file or module that is not there is named."""
    script = write_script(fast_path, says("Done."))
    for where in ("missing.py", "no.such.module", "./here", "", "script.json", "."):
        check_wrong(fast_path, ("--tools", where, "--script", script), f"--tools {where}: ")


SCRIPTS = {
    "empty": ("", "cannot be read"),
    "no-json": ("[{", "cannot be read"),
    "deep": ("[" * 100_000, "cannot be read"),
    "object": ("{}", "is not a JSON list of response bodies"),
    "numbers": ("[1, 2]", "is not a JSON list of response bodies"),
    "one-stray": ('[{"content": []}, null]', "is not a JSON list of response bodies"),
}


@pytest.mark.parametrize(("text", "says_why"), SCRIPTS.values(), ids=SCRIPTS)
def test_wrong_script(text: str, says_why: str, fast_path: Path) -> None:
    """A script that is no JSON list of bodies is named, with what it should be."""
    (fast_path / "wrong.json").write_text(text)
    check_wrong(fast_path, ("--script", "wrong.json"), f"script 'wrong.json' {says_why}")


def test_no_script(fast_path: Path) -> None:
    """A script that is not there is named."""
    for script in ("missing.json", ".", ""):
        check_wrong(fast_path, ("--script", script), f"script {script!r} cannot be read: ")


RESUMES = [
    ((), ("--script", "script.json"), "the run was started with neither --live nor --script"),
    ((), ("--live",), "the run was started with neither --live nor --script (model 'demonstration')"),
    (("--script", "script.json"), (), "the run was started with --script FILE (model 'scripted')"),
    (("--script", "script.json"), ("--live",), "the run was started with --script FILE (model 'scripted')"),
    (("--script", "script.json"), ("--live", "--model", "m"), "--model m: the run was started with 'scripted'"),
    ((), ("--tools", MODULE), "read_notes, count_words, write_report: pass them again with --tools"),
]


@pytest.mark.parametrize(("started", "resumed", "says_why"), RESUMES)
def test_resumed_as_another_run(
    started: tuple[str, ...], resumed: tuple[str, ...], says_why: str, fast_path: Path
) -> None:
    """A run resumed with another model than it was started with, or with none of its tools, is refused."""
    write_script(fast_path, says("Done."))
    assert 137 == run_cli(*started, cwd=fast_path, crash_after="after-start-save").status

    check_wrong(fast_path, ("--resume", *resumed), says_why, KEY)


def test_resume_or_start_with_another_task(fast_path: Path) -> None:
    """A supervisor that asks for another task than the run's is told so, rather than given the wrong work."""
    options = ("--resume-or-start", "--script", write_script(fast_path, says("Done.")), "--task")
    assert 0 == run_cli(*options, "one", cwd=fast_path).status

    check_wrong(fast_path, (*options, "two"), "task='two': the run to resume has task 'one'")


def test_undecodable_arguments_of_a_real_process(fast_path: Path) -> None:
    """Bytes that are no text come through the real command line without a traceback."""
    write_script(fast_path, says("Done."))
    command = [*map(os.fsencode, PYTHON_M_HARNESS), b"--script", b"script.json", b"--task", b"caf\xe9 \xff"]
    done = subprocess.run(command, cwd=fast_path, env=cold_env(), capture_output=True, check=False)

    status, last_line = Ran(done.returncode, done.stdout.decode(), done.stderr.decode()).end

    assert 2 == status
    assert last_line.startswith("[usage] task='caf\\udce9 \\udcff' holds a lone surrogate")
