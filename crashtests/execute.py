"""Executing a schedule: life after life, each a forked process, until the run has ended for good.

A life that is killed, or that its harness stopped before the end, is followed by a resume; where nothing was there to
resume (it died before the scene was saved), by a fresh start. A schedule that could not be executed as a harness's
life should be (it hangs, exits without a word, dies unasked) raises `SubjectFault`, which names the subject.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from crashtests.evidence import Evidence, LifeEvidence
from crashtests.forkserver.client import Death, ForkServer
from crashtests.kinds import FIRST_ASKS, TOOL_KINDS
from crashtests.life import STATUSES
from crashtests.schedule import Kill, Schedule
from crashtests.subject import Subject, load_subject
from crashtests.world import LogReader

_LIFE = "crashtests.life:live"
OURS = "crashtests.subjects.ours:Harness"

# A run that is started `over` an earlier one: that one was killed here, with calls pending.
_EARLIER_KILL = Kill("after-save-a")


class SubjectFault(Exception):
    """The subject did something that no harness's life may do, so its schedule cannot be judged."""

    def __init__(self, subject: str, schedule: Schedule, life: int, problem: str, output: str) -> None:
        super().__init__(
            f"subject {subject}: life {life} of schedule '{schedule}' {problem}"
            + (f"; it printed:\n{output[-2000:]}" if output.strip() else "")
        )


class Executor:
    """Executes schedules on one subject, with its fork server."""

    def __init__(self, server: ForkServer, cold_server: Callable[[], ForkServer], subject: Subject) -> None:
        self._server = server
        self._cold_server = cold_server
        self.subject = subject
        self.lives = 0
        self._references: dict[Schedule, Evidence] = {}

    def reference(self, schedule: Schedule) -> Evidence:
        """The uninterrupted run of the same script, in which no tool ends the process. Remembered."""
        plain = schedule.without_kills
        if plain not in self._references:
            with _run_directory(self._server) as run:
                self._references[plain] = self._lives(self._server, plain, run, None, tools_end=False)
        return self._references[plain]

    def execute(self, schedule: Schedule, *, kill_at: int | None = None, cold: bool = False) -> Evidence:
        """Evidence of `schedule`. `kill_at=k`: the life after the planned kills dies at its k-th crash point.

        The evidence's schedule names the kills that happened. `cold`: each life gets an interpreter of its own.
        Raises `SubjectFault`.
        """
        server = self._cold_server() if cold else self._server
        with _run_directory(server) as run:
            return self._lives(server, schedule, run, kill_at, tools_end=True)

    def _lives(
        self, server: ForkServer, schedule: Schedule, run: Path, kill_at: int | None, *, tools_end: bool
    ) -> Evidence:
        if schedule.over:
            self._start_earlier_run(server, schedule, run)
        lives: list[LifeEvidence] = []
        log = LogReader(run / "world.log")
        spare_lives = _spare_lives(schedule)
        resume, scene = False, None
        place = 0  # in the plan; a life that finds nothing to resume passes no crash point and takes no place in it
        while True:
            number = len(lives) + 1
            planned = schedule.kills[place] if place < len(schedule.kills) else None
            at = kill_at if place == len(schedule.kills) else None
            files = _files(run / "state") if resume and scene is None else None
            death = self._live(server, schedule, run, number, resume, planned, at, tools_end=tools_end)
            changed = None if files is None else files != _files(run / "state")
            before, scene = scene, self.subject.scene(run / "state")
            life = LifeEvidence(number, resume, planned, death, log.read(), before, scene, changed)
            self._check(schedule, life)
            lives.append(life)
            resume = life.status != "missing"
            place += resume
            if place < len(schedule.kills) + (kill_at is not None) or life.killed_at or not resume:
                continue
            spare_lives -= 1
            if _is_final(life) or spare_lives < 0:
                break
        happened = tuple(life.killed_at for life in lives if life.status != "missing")
        return Evidence(replace(schedule, kills=happened).canonical(), tuple(lives))

    def _live(
        self,
        server: ForkServer,
        schedule: Schedule,
        run: Path,
        number: int,
        resume: bool,
        planned: Kill | None,
        kill_at: int | None,
        *,
        tools_end: bool,
    ) -> Death:
        self.lives += 1
        request = {
            "schedule": str(schedule),
            "life": number,
            "resume": resume,
            "run": str(run),
            "log": "world.log" if number else "earlier.log",
            "kill": [planned.label, planned.n] if planned else None,
            "kill_at": kill_at,
            "tools_end": tools_end,
            "cwd": str(run),
        }
        return server.run(request)

    def _start_earlier_run(self, server: ForkServer, schedule: Schedule, run: Path) -> None:
        death = self._live(server, schedule, run, 0, False, _EARLIER_KILL, None, tools_end=False)
        if not death.killed:
            raise SubjectFault(self.subject.name, schedule, 0, f"was not killed at {_EARLIER_KILL}", death.output)

    def _check(self, schedule: Schedule, life: LifeEvidence) -> None:
        """A life ends in two ways only: a witnessed kill, or a word about its end and the exit status that fits."""
        death = life.death
        if death.killed and not life.ending:
            return
        if death.timed_out:
            problem = f"did not end within its time limit and was killed after {death.duration_s:.1f} s"
        elif death.signal is not None:
            problem = f"died of signal {death.signal} that no crash point announced (announced: {death.witness})"
        elif death.witness is not None:
            problem = f"announced {death.witness} and lived on"
        elif life.ending is None:
            problem = f"exited with status {death.exit_status} without saying how it ended"
        elif life.status == "missing" and not life.resume:
            problem = "was a fresh start and said that there is nothing to resume"
        elif death.exit_status != STATUSES[life.status]:
            problem = f"said {life.status} and exited with status {death.exit_status}"
        else:
            return
        raise SubjectFault(self.subject.name, schedule, life.number, problem, death.output)


@contextmanager
def _run_directory(server: ForkServer) -> Iterator[Path]:
    run = server.new_run()
    try:
        yield run
    finally:
        server.drop_run(run)


def _spare_lives(schedule: Schedule) -> int:
    """How many lives may stop before the end, unplanned: one for each cut turn and each tool that ends the process."""
    cuts = sum(word in FIRST_ASKS for turn in schedule.turns for word in turn.beside)
    ends = sum(TOOL_KINDS[call].ends is not None for turn in schedule.turns for call in turn.calls)
    return cuts + ends + 1


def _files(directory: Path) -> dict[str, bytes]:
    """Every file below a directory, with its content."""
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def _is_final(life: LifeEvidence) -> bool:
    """Whether another resume could change nothing: done, refused, or stopped without having tried anything."""
    if life.status == "stopped":
        return not any(life.of("ask", "begin"))
    return life.status in ("done", "refused")


@contextmanager
def executor(
    spec: str = OURS, *, planted: dict[str, Any] | None = None, life_timeout_s: float = 10.0
) -> Iterator[Executor]:
    """An executor for the subject `spec`, perhaps with a planted bug. Raises `SubjectError`, `ForkServerError`."""
    subject = load_subject(spec)
    setup = {"subject": spec, "planted": planted}
    with ExitStack() as servers:

        def serve(cold: bool) -> ForkServer:
            return servers.enter_context(ForkServer(_LIFE, life_timeout_s=life_timeout_s, setup=setup, cold=cold))

        yield Executor(serve(cold=False), cache(lambda: serve(cold=True)), subject)
