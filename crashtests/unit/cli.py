"""The command line, run as a user's shell would: in a forked child (fast) or as a cold `python -m harness` (the proof).

A forked child gets its own directory, environment and standard streams, calls `harness.cli.main`, and never comes back
into the test: it leaves by `os._exit`, or by the signal that ends it. Exit statuses are as a shell shows them, 128 + n
for signal n, so that a kill is 137 either way.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

import harness
from harness import cli, crash, demo

KILLED = 137

# A child that hangs is ended by the kernel, and its test fails.
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
    before: Callable[[], object] | None = None,
) -> Ran:
    """Run the command line in a forked child to its end. `before()` is called in the child first."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = _fork(arguments, cwd, {**(env or {}), **_crash_after(crash_after)}, (out, err), before)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return Ran(_as_shell(status), _read(out), _read(err))


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


def _fork(
    arguments: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    streams: tuple[IO[bytes], IO[bytes]],
    before: Callable[[], object] | None,
) -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns of threads in the parent, such as a test runner's; the child uses none of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _child(arguments, cwd, env, streams, before)
    return pid


def _child(
    arguments: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    streams: tuple[IO[bytes], IO[bytes]],
    before: Callable[[], object] | None,
) -> NoReturn:
    status = 1
    try:
        signal.alarm(_CHILD_MAX_S)
        crash.listen(None)
        os.chdir(cwd)
        sys.path.insert(0, "")
        os.environ.update(env)
        for fd, stream in enumerate(streams, start=1):
            os.dup2(stream.fileno(), fd)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        if before is not None:
            before()
        status = cli.main(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status if _flushed() else 120)


def _flushed() -> bool:
    """Whether what was printed could be written; Python itself exits with 120 if not."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return False
    return True


def _crash_after(text: str | None) -> dict[str, str]:
    return {} if text is None else {"CRASH_AFTER": text}


def _as_shell(returncode: int) -> int:
    return 128 - returncode if returncode < 0 else returncode


def _read(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()
