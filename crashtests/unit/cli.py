"""The command line as a user runs it: a call, a life of the fork server, or a cold `python -m harness` (the proof).

Where nothing ends the process and nothing around it is odd, a call in the test's own is enough, and fastest. Every way
has its own directory, environment and standard streams. Exit statuses are as a shell shows them, 128 + n for signal n,
so that a kill is 137.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

import harness
from crashtests.unit.server import server
from harness import cli, demo

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


def run_cli(
    *arguments: str,
    cwd: Path,
    crash_after: str | None = None,
    env: Mapping[str, str] | None = None,
    before: Sequence[Any] = (),
) -> Ran:
    """Run the command line to its end, in the cheapest way that shows what a process of its own would.

    What is to be killed, or needs other surroundings than a test's (`before`), is a life of the fork server; anything
    else is a call in this process.
    """
    if crash_after is None and not before:
        return called(*arguments, cwd=cwd, env=env)
    return forked(*arguments, cwd=cwd, crash_after=crash_after, env=env, before=before)


def called(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> Ran:
    """Call the command line in this process, which is afterwards as it was before."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with _as_a_process(cwd, env or {}, out.fileno(), err.fileno()):
            status = _status(arguments)
        return Ran(status, _read(out), _read(err))


def _status(arguments: Sequence[str]) -> int:
    try:
        return cli.main(arguments)
    except SystemExit as end:  # of argparse, after --help
        return end.code if isinstance(end.code, int) else 1


@contextmanager
def _as_a_process(cwd: Path, env: Mapping[str, str], out: int, err: int) -> Iterator[None]:
    """Directory, environment, streams, import path and signals as a process has them that was started in `cwd`."""
    directory, on_sigterm, modules = os.getcwd(), signal.getsignal(signal.SIGTERM), set(sys.modules)
    kept = [os.dup(fd) for fd in (1, 2)]
    with ExitStack() as undo:
        undo.callback(os.chdir, directory)
        undo.callback(signal.signal, signal.SIGTERM, on_sigterm)
        undo.enter_context(patch.dict(os.environ, env))
        undo.enter_context(patch.object(sys, "path", ["", *sys.path]))
        for fd, stream in ((1, out), (2, err)):
            undo.callback(os.close, kept[fd - 1])
            undo.callback(os.dup2, kept[fd - 1], fd)
            os.dup2(stream, fd)
        for name, fd in (("stdout", 1), ("stderr", 2)):
            stream_there = undo.enter_context(open(fd, "w", closefd=False))
            undo.enter_context(patch.object(sys, name, stream_there))
        os.chdir(cwd)
        yield
    for name in set(sys.modules) - modules:
        if str(cwd) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def forked(
    *arguments: str,
    cwd: Path,
    crash_after: str | None = None,
    env: Mapping[str, str] | None = None,
    before: Sequence[Any] = (),
) -> Ran:
    """Run the command line in a life of the fork server to its end.

    `before`: a function of `crashtests.unit.surroundings` and its arguments, to be called there first.
    """
    lives = server()
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
    """Everything below `directory`: a change of a byte, a name or a time of modification shows.

    But for what Python keeps beside a tools file that it has imported, unless it is told to keep nothing.
    """
    paths = sorted(path for path in directory.rglob("*") if "__pycache__" not in path.parts)
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


def _read(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()
