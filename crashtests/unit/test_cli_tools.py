"""Tools given by path or by module name, and what starting the command line costs."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from crashtests.unit.bodies import asks, call, says
from crashtests.unit.cli import KILLED, PYTHON_M_HARNESS, cold_env, run_cli, write_script
from crashtests.unit.cli_tools import MODULE, effects

DONE = '[done] turns=1 tokens_used=30 unknowns=0 answer="Done."'


@pytest.mark.parametrize("where", ["mine.py", "./mine.py", "sub dir/email.py", "mine", "package.mine", MODULE])
def test_tools_by_path_and_by_name(where: str, fast_path: Path) -> None:
    """`--tools` takes a file anywhere or a module that Python finds, and a resume takes the same again."""
    for name in ("mine.py", "sub dir/email.py", "package/mine.py"):
        (fast_path / name).parent.mkdir(exist_ok=True)
        (fast_path / name).write_text(f"from {MODULE} import TOOLS as tools\nTOOLS = tuple(tools)\n")
    run = ("--tools", where, "--script", write_script(fast_path, asks(call("a")), says("Done.")))

    assert KILLED == run_cli(*run, cwd=fast_path, crash_after="after-save-a").status
    assert (0, DONE) == run_cli("--resume", *run, cwd=fast_path).end
    assert ["act a"] == effects(fast_path)


def test_tools_file_does_not_stand_in_for_a_module(fast_path: Path) -> None:
    """A tools file named like a module of the standard library is not what others get when they import that module."""
    (fast_path / "mine").mkdir()
    source = f"import colorsys\ncolorsys.rgb_to_hsv(0, 0, 0)\nfrom {MODULE} import TOOLS\n"
    (fast_path / "mine/colorsys.py").write_text(source)
    run = ("--tools", "mine/colorsys.py", "--script", write_script(fast_path, asks(call("a")), says("Done.")))

    assert (0, DONE) == run_cli(*run, cwd=fast_path).end


def test_tools_that_are_gone(fast_path: Path) -> None:
    """A resume that lacks one of the run's tools warns, and goes on: what was pending is settled by what it was."""
    (fast_path / "fewer.py").write_text(f"from {MODULE} import TOOLS as tools\nTOOLS = tools[:1]\n")
    script = ("--script", write_script(fast_path, asks(call("a")), says("Done.")))
    assert KILLED == run_cli("--tools", MODULE, *script, cwd=fast_path, crash_after="after-started-mark").status

    ran = run_cli("--resume", "--tools", "fewer.py", *script, cwd=fast_path)

    assert (0, '[done] turns=1 tokens_used=30 unknowns=1 answer="Done."') == ran.end
    assert ran.err.startswith("warning: this run was started with tools that are not here now: act, wait, ")
    assert [] == effects(fast_path)


def test_offline_start_does_not_import_the_sdk(fast_path: Path) -> None:
    """The whole demonstration, offline, imports neither the SDK nor its HTTP library."""
    command = [sys.executable, "-X", "importtime", "-m", "harness"]
    done = subprocess.run(command, cwd=fast_path, env=cold_env(), capture_output=True, text=True, check=True)
    imported = set(re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE))

    assert "harness.cli" in imported
    assert set() == {name for name in imported if name.split(".")[0] in ("anthropic", "httpx2", "pydantic", "ssl")}


def test_offline_start_is_quick(fast_path: Path) -> None:
    """The demonstration costs well under 0.3 s of processor time above what an empty Python does."""
    empty = statistics.median(_processor_time_s([sys.executable, "-c", "pass"], fast_path) for _ in range(3))
    demo = statistics.median(_processor_time_s(list(PYTHON_M_HARNESS), fast_path) for _ in range(3))

    assert demo - empty < 0.3


def _processor_time_s(command: list[str], directory: Path) -> float:
    """What the process used itself: other work on the machine does not count."""
    with subprocess.Popen(command, cwd=directory, env=cold_env(), stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert 0 == process.returncode
    return usage.ru_utime + usage.ru_stime
