"""The command line, run as a user would: as a life of a fork server (fast) or a cold `python -m harness` (the proof).

A life gets its own directory, environment and standard streams, and calls `harness.cli.main`. Exit statuses are as a
shell shows them, 128 + n for signal n, so that a kill is 137 either way.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
from crashtests.unit.servers import server
from harness import demo

KILLED = 137

# A process that hangs is ended, and its test fails.
_CHILD_MAX_S = 60
_SOURCE = str(Path(harness.__file__).parents[1])

DEMO_SCRIPT = Path(demo.__file__).with_name("script.json")
DEMO_RESPONSES: list[dict[str, Any]] = json.loads(DEMO_SCRIPT.read_bytes())
DEMO_DONE = '[done] turns=3 tokens_used=5162 unknowns=0 answer="The report of week 47 is in report.txt."'


@dataclass(frozen=True)
class Ran:
    """What a shell would see of one run of the command line."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.removesuffix("\n").split("\n")

    @property
    def end(self) -> tuple[int, str]:
        """Exit status and last line, which must say the same."""
        assert "Traceback" not in self.err, self.err
        return self.status, self.lines[-1]


def forked(
    *arguments: str,
    cwd: Path,
    crash_after: str | None = None,
    env: Mapping[str, str] | None = None,
    before: Sequence[Any] = (),
    sdk: bool = False,
) -> Ran:
    """Run the command line in a life of a fork server to its end.

    `before`: a function of `crashtests.unit.surroundings` and its arguments, to be called there first. `sdk`: in a life
    that has the SDK loaded already.
    """
    lives = server(sdk=sdk)
    out, err = lives.root / "stdout", lives.root / "stderr"
    for stream in (out, err):
        stream.unlink(missing_ok=True)
    death = lives.run(
        {
            "do": "command line",
            "cwd": str(cwd),
            "arguments": arguments,
            "env": {**(env or {}), **_crash_after(crash_after)},
            "streams": [str(out), str(err)],
            "before": [before[0].__name__, *before[1:]] if before else [],
        }
    )
    assert not death.timed_out, death
    assert "" == death.output
    status = 128 + death.signal if death.exit_status is None and death.signal else death.exit_status
    assert status is not None
    return Ran(status, out.read_text(), err.read_text())


def cold(*arguments: str, cwd: Path, crash_after: str | None = None, env: Mapping[str, str] | None = None) -> Ran:
    """Run `python -m harness` as a process of its own to its end."""
    done = subprocess.run(
        [*PYTHON_M_HARNESS, *arguments],
        cwd=cwd,
        env=cold_env(crash_after, env),
        capture_output=True,
        timeout=_CHILD_MAX_S,
        check=False,
    )
    return Ran(_as_shell(done.returncode), done.stdout.decode(), done.stderr.decode())


PYTHON_M_HARNESS = (sys.executable, "-m", "harness")


def cold_env(crash_after: str | None = None, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a cold run: nothing of the test runner's changes how Python buffers or what it finds."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON"))}
    return kept | {"PYTHONPATH": _SOURCE} | dict(env or {}) | _crash_after(crash_after)


def write_script(directory: Path, *bodies: Any) -> str:
    """Put a script into `directory`; returns its name."""
    (directory / "script.json").write_text(json.dumps(bodies))
    return "script.json"


def snapshot(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below `directory`: a change of a byte, a name or a time of modification shows."""
    paths = sorted(directory.rglob("*"))
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else b"") for p in paths}


def report_ids(directory: Path) -> list[str]:
    """The calls whose reports stand in `report.txt`, each whole and with the right text."""
    text = DEMO_RESPONSES[2]["content"][1]["input"]["text"]
    section = re.compile(rf"Report of call ([a-zA-Z0-9_-]+)\n{re.escape(text)}\n\(end of report\)\n")
    report = directory / "report.txt"
    written = report.read_text(encoding="utf-8") if report.exists() else ""

    assert "" == section.sub("", written)
    return section.findall(written)


def _crash_after(text: str | None) -> dict[str, str]:
    return {} if text is None else {"CRASH_AFTER": text}


def _as_shell(returncode: int) -> int:
    return 128 - returncode if returncode < 0 else returncode
