"""Whole sessions, each a pytest of its own: what they say, how they end, and that they leave nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crashtests.forkserver.server import SERVER_ARGUMENTS
from crashtests.schedule import parse

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
NAIVE = "crashtests/subjects/naive.py:Naive"
HOLDS = "v1 json marks [pay] end > after-effect:1"
PROBE = ("crashtests/test_sweep.py", "crashtests/test_machine.py", "--crash-profile", "probe", "--crash-seed", "7")
# No outcome depends on it: a session that takes longer hangs.
PATIENCE_S = 300


class Place:
    """Where the sessions of a test keep their directories, and by which their processes are known."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        self.environment = {**kept, "CRASHTESTS_TMPDIR": str(directory)}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "pytest", "--color=no", *(arguments or ("crashtests",))]

    def session(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A session from beginning to end."""
        return subprocess.run(
            self.command(*arguments),
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """A session that is left to itself."""
        return subprocess.Popen(
            self.command(*arguments), cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, text=True
        )

    def processes(self) -> dict[int, tuple[int, list[str]]]:
        """Process id -> parent and command line of all processes that were started from here and are alive."""
        found = {}
        mark = f"CRASHTESTS_TMPDIR={self.directory}".encode()
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    state, parent = (path / "stat").read_text().rpartition(") ")[2].split()[:2]
                    words = (path / "cmdline").read_text().split("\0")
                    if state != "Z":
                        found[int(path.name)] = int(parent), words
            except (OSError, ValueError):
                continue  # it has just ended, or is somebody else's
        return found

    def workers_with_servers(self, session: int) -> list[int]:
        """Workers of a session that have a fork server."""
        processes = self.processes()
        servers = [pid for pid, (_, words) in processes.items() if set(SERVER_ARGUMENTS) <= set(words)]
        parents = {processes[server][0] for server in servers}
        return sorted(pid for pid in parents if processes.get(pid, (0, []))[0] == session)

    def wait_for_nothing(self) -> None:
        """Wait until no process and no directory is left."""
        wait_until(lambda: not self.left(), self.left)

    def left(self) -> list[object]:
        """The processes and directories that are there."""
        return [*self.processes().items(), *self.directory.iterdir()]


def wait_until(condition: Callable[[], object], seen: Callable[[], object] = lambda: "") -> None:
    """Wait for what happens outside; how often it is looked at decides nothing, `seen` says why it never came."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited for too long: {seen()}"
        time.sleep(0.02)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A place for this test, at whose end no process is left."""
    place = Place(tmp_path)
    yield place
    for pid in place.processes():
        os.kill(pid, signal.SIGKILL)


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def test_replay_of_what_holds(place: Place) -> None:
    """One test, its timeline, and the word that nothing else was looked at."""
    done = place.session("crashtests", "--replay", HOLDS)

    assert 0 == done.returncode
    assert f"schedule  {HOLDS}\nlife 1    starts\n" in done.stdout
    assert "          every guarantee holds\n" in done.stdout
    assert "partial campaign: gates not checked (--replay was given)" in done.stdout
    assert re.search(r"\b1 passed in ", last_line(done.stdout))


def test_replay_of_what_breaks(place: Place) -> None:
    """On the naive loop the same line is red, with the guarantee and the timeline, and no traceback."""
    done = place.session("crashtests", "--subject", NAIVE, "--replay", HOLDS)

    assert 1 == done.returncode
    assert "BROKEN    AT-MOST-ONCE: the effect of pay (step 1-1) happened 2 times" in done.stdout
    assert "Traceback" not in done.stdout
    assert "crashtests/campaign.py" not in done.stdout


def test_replay_of_nothing(place: Place) -> None:
    """The file of the replay, named by itself, says what it lacks."""
    done = place.session("crashtests/test_replay.py")

    assert 1 == done.returncode
    assert "no schedule to replay: give it with --replay '<schedule>'" in done.stdout
    assert "Traceback" not in done.stdout


def test_replay_of_an_overrun(place: Place) -> None:
    """A kill that is never reached is red too: something else was run."""
    done = place.session("crashtests", "--replay", "v1 json marks [pay] end > after-effect:2")

    assert 1 == done.returncode
    assert "what happened instead: 'v1 json marks [pay] end" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--replay", "v1 json marks [pays] end"), "ERROR: call 'pays' is none of: read, put, pay, mail,"),
        (("--subject", "naive.py"), "ERROR: subject 'naive.py' is not of the form path/to/file.py:Class"),
        (("--subject", "no/such.py:Naive"), "ERROR: subject 'no/such.py:Naive' cannot be loaded: FileNotFoundError"),
    ],
)
def test_what_cannot_be_run(place: Place, arguments: tuple[str, str], says: str) -> None:
    """A bad schedule or subject is a usage error, in one line, before anything is run."""
    done = place.session("crashtests", *arguments)

    assert 4 == done.returncode
    assert done.stderr.startswith(says)
    assert 1 == len(done.stderr.strip().splitlines())


def test_subject_that_cannot_be_prepared(place: Place) -> None:
    """A subject that fails when its process begins is a short failure that names it, not a traceback of ours."""
    done = place.session("crashtests", "--subject", "crashtests.bad_subjects:NeedsMore", "-n", "2")

    assert 1 == done.returncode
    assert "subject 'crashtests.bad_subjects:NeedsMore' cannot be prepared: ModuleNotFoundError" in done.stdout
    assert "Traceback" not in done.stdout


def test_subject_that_cannot_be_judged(place: Place) -> None:
    """A subject that leaves without a word is a short failure that names it and the schedule."""
    done = place.session("crashtests", "--subject", "crashtests.bad_subjects:Leaves", "-n", "2")

    assert 1 == done.returncode
    assert "subject leaves: life 1 of schedule 'v1 json marks [read] end' exited with status 0" in done.stdout
    assert "Traceback" not in done.stdout


def test_the_naive_loop(place: Place) -> None:
    """The loop that most people write ends red, with a smallest schedule of one turn and one kill."""
    done = place.session("crashtests", "--subject", NAIVE, "-n", "2")
    story = done.stdout.partition("the contract is broken: the gravest and smallest of ")[2]
    smallest = parse(re.findall(r"^schedule  (.*)$", story, re.MULTILINE)[0])

    assert 1 == done.returncode
    assert (1, 1) == (len(smallest.turns), len(smallest.kills))
    assert f"replay it:  pytest crashtests --subject {NAIVE} --replay '{smallest}'" in story


def counts(place: Place, *arguments: str) -> str:
    """What a green probe has counted: its summary without the rates."""
    done = place.session(*PROBE, *arguments)
    assert 0 == done.returncode, done.stdout
    summary = re.search(r"^=+ crash campaign =+\n(.*)^again ", done.stdout, re.MULTILINE | re.DOTALL)
    assert summary is not None
    assert "  all " in summary[1]
    return summary[1].strip()


def test_counts_do_not_depend_on_the_workers(place: Place) -> None:
    """One seed covers the same schedules, kills and rows in one process, with two workers and with eight."""
    alone = counts(place, "-n", "0")

    assert alone == counts(place, "-n", "2")
    assert alone == counts(place, "-n", "8")


def test_another_seed_is_another_search(place: Place) -> None:
    """What the machine covers depends on the seed."""
    assert counts(place, "-n", "2") != counts(place, "-n", "2", "--crash-seed", "8")


def test_gate_not_met(place: Place) -> None:
    """A whole session whose tests all pass is red if it has not been everywhere."""
    subject = "crashtests.bad_subjects:Boasts"
    done = place.session("crashtests", "--subject", subject, "--crash-profile", "probe", "-n", "2")

    assert 1 == done.returncode
    assert "GATE NOT MET: json nowhere was never passed" in done.stdout
    assert "GATE NOT MET: sqlite nowhere was never passed" in done.stdout
    assert " failed" not in last_line(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("crashtests", "-k", "test_canary"), "-k was given"),
        (("crashtests/test_canary.py", "crashtests/test_regressions.py"), "only a part of the tests was asked for"),
        (("crashtests/test_regressions.py::test_regression",), "only a part of the tests was asked for"),
    ],
)
def test_partial_sessions(place: Place, arguments: tuple[str, ...], why: str) -> None:
    """A session that was cut down says so, and why, in place of its gates."""
    done = place.session(*arguments, "-n", "0")

    assert 0 == done.returncode
    if "regression" in "".join(arguments):
        assert f"partial campaign: gates not checked ({why})" in done.stdout
    assert "gates: all met" not in done.stdout
    assert "GATE NOT MET" not in done.stdout


def test_slow_tests_are_by_themselves(place: Place) -> None:
    """Without `--slow` no slow test is there, with it nothing else; what is left out is deselected, not skipped."""
    fast = place.session("crashtests/test_bugs.py", "--collect-only", "-q")
    slow = place.session("crashtests/test_bugs.py", "--collect-only", "-q", "--slow")

    assert "test_planted_bug" not in fast.stdout
    assert "test_every_edit_fits" in fast.stdout
    assert "test_planted_bug" in slow.stdout
    assert "test_every_edit_fits" not in slow.stdout
    assert re.search(r"\d+/\d+ tests collected \(\d+ deselected\)", last_line(fast.stdout))


def test_a_worker_that_is_killed(place: Place) -> None:
    """The session ends red, soon, and says which worker it was; nothing of it is left."""
    session = place.begin(*PROBE, "-n", "2")
    wait_until(lambda: place.workers_with_servers(session.pid))
    os.kill(place.workers_with_servers(session.pid)[0], signal.SIGKILL)
    said, _ = session.communicate(timeout=PATIENCE_S)

    assert 1 == session.returncode
    assert re.search(r"worker 'gw\d' crashed while running", said)
    place.wait_for_nothing()


def test_a_session_that_is_killed(place: Place) -> None:
    """When pytest itself is killed its workers, their fork servers, the lives and all directories go as well."""
    session = place.begin(*PROBE, "-n", "2")
    wait_until(lambda: len(place.workers_with_servers(session.pid)) == 2)
    session.kill()
    session.communicate(timeout=PATIENCE_S)

    assert -signal.SIGKILL == session.returncode  # it was in the middle, and not at its end by itself
    place.wait_for_nothing()


def test_a_session_in_one_process_that_is_killed(place: Place) -> None:
    """Without workers it is the same: the fork server sees its client die, and clears up."""
    session = place.begin(*PROBE, "-n", "0")
    wait_until(lambda: any(set(SERVER_ARGUMENTS) <= set(words) for _, words in place.processes().values()))
    session.kill()
    session.communicate(timeout=PATIENCE_S)

    assert -signal.SIGKILL == session.returncode  # it was in the middle, and not at its end by itself
    place.wait_for_nothing()
