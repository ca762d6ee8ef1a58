"""Executing a schedule: life after life, each a forked process, until the run has ended for good.

A life that is killed, or that its harness stopped before the end, is followed by a resume; where nothing was there to
resume (it died before the scene was saved), by a fresh start. A schedule that could not be executed as a harness's
life should be (it hangs, exits without a word, dies unasked) raises `SubjectFault`, which names the subject.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from crashtests.environments import NotInstalled, python_of
from crashtests.evidence import Evidence, LifeEvidence
from crashtests.forkserver.client import Death, ForkServer
from crashtests.kinds import FIRST_ASKS, TOOL_KINDS
from crashtests.life import STATUSES
from crashtests.powerloss.watch import KEPT
from crashtests.reuse import Reuse, state_key
from crashtests.schedule import ANY, Hindrance, Kill, Plan, Schedule, Turn, is_label
from crashtests.subject import Scene, Subject, SubjectError, load_subject
from crashtests.world import AFTER_EFFECT, Event, LogReader

_LIFE = "crashtests.life:live"
# What the processes that a life had started may take to end by themselves, where the life alone was killed.
_LIVES_ON_S = 10.0
# What a run's directory holds; `state` is the subject's.
_OURS_IN_A_RUN = {"state", "world.log", "earlier.log", KEPT}
OURS = "crashtests.subjects.ours:Harness"

# A run that is started `over` an earlier one: that one was killed in its second call, after a first that was finished.
_EARLIER = Schedule((Turn(("pay",)), Turn(("pay",))))
_EARLIER_KILL = Kill(AFTER_EFFECT, 2)


class SubjectFault(Exception):
    """The subject did something that no harness's life may do, so its schedule cannot be judged.

    `problem` says what; `timed_out`, that it did not come to an end.
    """

    def __init__(
        self, subject: str, schedule: Schedule, life: int, problem: str, output: str, *, timed_out: bool = False
    ) -> None:
        self.problem = f"life {life} {problem}"
        self.timed_out = timed_out
        super().__init__(
            f"subject {subject}: life {life} of schedule '{schedule}' {problem}"
            + (f"; it printed:\n{output[-2000:]}" if output.strip() else "")
        )


@dataclass(slots=True)
class _Run:
    """A schedule while it is executed."""

    schedule: Schedule
    server: ForkServer
    directory: Path
    log: LogReader
    kill_at: Kill | None
    """The last kill of the plan, if it is counted over all crash points: `any:k`."""
    tools_end: bool
    reuse: bool
    lives: list[LifeEvidence] = field(default_factory=list)
    scene: Scene | None = None
    resume: bool = False
    place: int = 0
    """In the plan. A life that finds nothing to resume passes no crash point and takes no place in it."""
    over: bool = False
    ends_from: tuple[Hashable, int] | None = None

    @property
    def planned(self) -> int:
        """How many lives have a place in the plan."""
        return len(self.schedule.kills) + (self.kill_at is not None)

    def plan(self) -> Plan:
        """How the next life is to go."""
        kills = self.schedule.kills
        if self.place == len(kills) and self.kill_at is not None:
            return self.kill_at
        return kills[self.place] if self.place < len(kills) else None

    @property
    def watched(self) -> bool:
        """Whether the next life, or one after it, is to lose power."""
        last = self.kill_at is not None and self.kill_at.loss != ""
        return last or self.schedule.loses_power_from(self.place)

    def add(self, life: LifeEvidence) -> None:
        self.lives.append(life)
        if life.hindered_by:
            # What follows a life that should never have been cannot be judged.
            self.place, self.over = self.place + 1, life.status != "refused"
            return
        self.resume = life.status != "missing"
        self.place += self.resume
        if self.place < self.planned or life.killed_at or not self.resume:
            return
        left_alone = self.place - self.planned
        self.over = _is_final(life) or left_alone > _spare_lives(self.schedule)

    def evidence(self) -> Evidence:
        happened = tuple(life.planned if life.hindered_by else life.killed_at for life in self.lives if life.in_plan)
        branch = self.ends_from[0] if self.ends_from else None
        executed = replace(self.schedule, kills=happened[: len(self.schedule.kills) + (self.kill_at is not None)])
        return Evidence(_canonical(executed, self.lives), executed, tuple(self.lives), branch)


def _no_other() -> ForkServer:
    raise NotImplementedError("nothing here is executed cold, or beside another life")


class Executor:
    """Executes schedules on one subject, with its fork server."""

    def __init__(
        self,
        server: ForkServer,
        subject: Subject,
        cold_server: Callable[[], ForkServer] = _no_other,
        another_server: Callable[[], ForkServer] = _no_other,
    ) -> None:
        self.server = server
        self._cold_server = cold_server
        self.another_server = another_server
        """A second server like `server`, for lives beside its own. Made once; it closes with the executor."""
        self._reuse = Reuse(server.root / "beginning")
        self._references: dict[Schedule, Evidence] = {}
        self._accepted: defaultdict[str, set[str]] = defaultdict(set)
        self.subject = subject
        self.lives = 0

    def forget(self) -> None:
        """Remember nothing of what was executed, as one that has just been made."""
        self._reuse.forget()
        self._references.clear()
        self._accepted.clear()

    @property
    def root(self) -> Path:
        """The directory below which its runs live."""
        return self.server.root

    @property
    def lives_saved(self) -> int:
        """Lives that were not lived again, since the same one had been (reuse.py)."""
        return self._reuse.lives_saved

    def reference(self, schedule: Schedule) -> Evidence:
        """The uninterrupted run of the same script, in which no tool ends the process. Remembered."""
        plain = schedule.without_kills
        if plain not in self._references:
            self._references[plain] = self._execute(plain, self.server, tools_end=False)
        return self._references[plain]

    def execute(self, schedule: Schedule, *, kill_at: int | None = None, loss: str = "") -> Evidence:
        """Evidence of `schedule`. `kill_at=k`: the life after the planned ones dies at its k-th crash point.

        `loss`: what is lost with that kill, a key of `LOSSES`. The evidence's schedule names the kills that happened.
        Raises `SubjectFault`.
        """
        last = None if kill_at is None else Kill(ANY, kill_at, loss)
        return self._execute(schedule, self.server, kill_at=last, reuse=True)

    def again(self, schedule: Schedule, *, cold: bool) -> Evidence:
        """`execute` with every life lived, `cold`: each in an interpreter of its own."""
        return self._execute(schedule, self._cold_server() if cold else self.server)

    def _execute(
        self,
        schedule: Schedule,
        server: ForkServer,
        *,
        kill_at: Kill | None = None,
        tools_end: bool = True,
        reuse: bool = False,
    ) -> Evidence:
        self._check_kills(schedule, kill_at)
        directory = server.new_run()
        run = _Run(schedule, server, directory, LogReader(directory / "world.log"), kill_at, tools_end, reuse)
        try:
            self._begin(run)
            while not run.over:
                key = self._key(run)
                if key is not None and run.ends_from is None:
                    run.ends_from = (key, len(run.lives))
                    if lives := self._reuse.end(key, len(run.lives) + 1):
                        run.lives += lives
                        break
                self._live(run)
            else:
                if run.ends_from is not None:
                    key, place = run.ends_from
                    self._reuse.ended(key, run.lives[place:])
            return run.evidence()
        finally:
            run.server.drop_run(run.directory)

    def _check_kills(self, schedule: Schedule, kill_at: Kill | None) -> None:
        """Where it cannot be seen what is synced, power must not be lost: all would seem to be.

        Nor must one die at a delay of whom it is foretold from the crash points passed what follows.
        """
        if self.subject.settles_exactly and any(kill.delay_ms for kill in schedule.deaths):
            problem = "is to die at a delay, which is none of its crash points: its own are everywhere, so name one"
            raise SubjectFault(self.subject.name, schedule, 1, problem, "")
        lost = schedule.loses_power_from(0) or (kill_at is not None and kill_at.loss)
        if lost and schedule.store not in self.subject.power_stores:
            problem = f"is to lose power, which cannot be simulated: {schedule.store} is not in its power_stores"
            raise SubjectFault(self.subject.name, schedule, 1, problem, "")

    def _begin(self, run: _Run) -> None:
        """Bring the run to where its first life starts, or, if that is remembered, to the end of its plan."""
        if run.kill_at is not None and run.schedule.kills:
            begun = self._reuse.beginning(run.schedule, run.directory, watched=run.watched)
            if begun is not None:
                run.lives, run.scene, run.resume = list(begun.lives), begun.scene, begun.resume
                run.place = len(run.schedule.kills)
                run.log.skip()
                return
        if run.schedule.over:
            self._start_earlier_run(run)

    def _start_earlier_run(self, run: _Run) -> None:
        """Leave an unfinished run of another script in the state directory, for this one to be started over.

        It is lived once for each pair of options and copied from then on.
        """
        schedule = replace(_EARLIER, store=run.schedule.store, marks=run.schedule.marks)
        kept = run.server.root / f"earlier-{run.schedule.store}-{run.schedule.marks}"
        if not kept.exists():
            death = self._run_life(replace(run, schedule=schedule), 0, _EARLIER_KILL)
            if not death.killed:
                raise SubjectFault(self.subject.name, schedule, 0, f"was not killed at {_EARLIER_KILL}", death.output)
            shutil.copytree(run.directory, kept)
        shutil.copytree(kept, run.directory, dirs_exist_ok=True)

    def _key(self, run: _Run) -> Hashable | None:
        """What the rest of this run depends on, once all planned kills are behind it; None if it cannot be told."""
        if not run.reuse or run.place < run.planned or not run.lives:
            return None
        with self._temporary_files():
            state = self.subject.state_key(run.directory / "state")
        return None if state is None else state_key(run.schedule, state, run.lives, run.resume)

    def _live(self, run: _Run) -> None:
        """One more life, and what follows for the next."""
        state = run.directory / "state"
        number = len(run.lives) + 1
        planned = run.plan()
        at_kill = run.place == len(run.schedule.kills) and run.kill_at is not None
        if at_kill and run.lives and run.lives[-1].in_plan:
            self._reuse.begin(run.schedule, run.lives, run.directory, run.resume, watched=run.watched)
        hindrance = planned if isinstance(planned, Hindrance) and run.resume and run.scene is not None else None
        with self._hindered(state, hindrance) if hindrance else nullcontext():
            files = _files(state) if run.resume and (run.scene is None or hindrance) else None
            death = self._run_life(run, number, planned if isinstance(planned, Kill) else hindrance)
            changed = None if files is None else files != _files(state)
        with self._temporary_files():
            before, run.scene = run.scene, self.subject.scene(state)
        events = self._events(run, number, death)
        life = LifeEvidence(number, run.resume, planned, death, events, before, run.scene, changed)
        self._check(run.schedule, life)
        run.add(life)
        accepted = (event["digest"] for event in life.of("ask") if not event["broken"])
        self._accepted[str(run.schedule.without_kills)].update(accepted)

    @contextmanager
    def _temporary_files(self) -> Iterator[None]:
        """Meanwhile they are made below the root, which is in memory: a store is copied to be looked at."""
        before, tempfile.tempdir = tempfile.tempdir, str(self.root)
        try:
            yield
        finally:
            tempfile.tempdir = before

    @contextmanager
    def _hindered(self, state: Path, hindrance: Hindrance) -> Iterator[None]:
        """What stands in the way of one life, which gets a copy of the state, and then the state itself again."""
        with tempfile.TemporaryDirectory(dir=self.server.root) as aside:
            # The very files, not others of the same content: it may not be durable yet what is in them.
            kept = state.rename(Path(aside) / state.name)
            shutil.copytree(kept, state)
            with self.subject.hinder(hindrance.how, state):
                yield
            shutil.rmtree(state)
            kept.rename(state)

    def _events(self, run: _Run, number: int, death: Death) -> list[Event]:
        """What the world logged in a life that has written only where it may."""
        if strays := sorted({path.name for path in run.directory.iterdir()} - _OURS_IN_A_RUN):
            problem = f"wrote outside its state directory: {', '.join(strays)}"
            raise SubjectFault(self.subject.name, run.schedule, number, problem, death.output)
        try:
            return run.log.read()
        except ValueError as error:
            problem = f"wrote into the world's log ({error})"
            raise SubjectFault(self.subject.name, run.schedule, number, problem, death.output) from error

    def _run_life(self, run: _Run, number: int, planned: Plan) -> Death:
        self.lives += 1
        kill = planned if isinstance(planned, Kill) else None
        request = {
            "schedule": str(run.schedule),
            "life": number,
            "resume": run.resume,
            "run": str(run.directory),
            "log": "world.log" if number else "earlier.log",
            "accepted": sorted(self._accepted[str(run.schedule.without_kills)]) if run.reuse else [],
            "kill": [kill.label, kill.n, kill.loss, kill.delay_ms, kill.alone] if kill else None,
            "watch": run.watched and not isinstance(planned, Hindrance),
            "tools_end": run.tools_end,
            "cwd": str(run.directory),
        }
        if kill and kill.alone:
            request["lives_on_s"] = _LIVES_ON_S
        return run.server.run(request)

    def _check(self, schedule: Schedule, life: LifeEvidence) -> None:
        """A life ends in two ways only: a witnessed kill, or a word about its end and the exit status that fits."""
        death = life.death
        unnamed = [label for label in dict.fromkeys(life.passed) if not is_label(label)]
        if death.killed and not life.ending and not unnamed:
            return
        if unnamed:
            problem = (
                f"passed a crash point {unnamed[0]!r}: a label is a letter, then letters, digits, _ . - (not {ANY!r})"
            )
        elif death.timed_out:
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
        raise SubjectFault(self.subject.name, schedule, life.number, problem, death.output, timed_out=death.timed_out)


def _spare_lives(schedule: Schedule) -> int:
    """How many lives may stop before the end, unplanned: one for each cut turn and each tool that ends the process."""
    cuts = sum(word in FIRST_ASKS for turn in schedule.turns for word in turn.beside)
    ends = sum(TOOL_KINDS[call].ends is not None for turn in schedule.turns for call in turn.calls)
    return cuts + ends + 1


def _files(directory: Path) -> dict[str, bytes]:
    """Every file below a directory, with its content."""
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def _canonical(executed: Schedule, lives: list[LifeEvidence]) -> Schedule:
    """Without the lives at its end that would have been lived anyway; a resume of what had ended is not one of them."""
    in_plan = [life for life in lives if life.in_plan]
    last_kill = max((place for place, life in enumerate(in_plan) if life.killed_at or life.hindered_by), default=-1)
    after = range(last_kill + 1, len(in_plan))
    ended = next((place for place in after if _is_final(in_plan[place])), len(in_plan))
    return executed if ended < len(in_plan) - 1 else executed.canonical()


def _is_final(life: LifeEvidence) -> bool:
    """Whether another resume could change nothing: done, refused, or at an end without having tried anything."""
    if life.status in ("stopped", "raised"):
        return not any(life.of("ask", "begin"))
    return life.status in ("done", "refused")


@contextmanager
def executor(
    spec: str = OURS,
    *,
    planted: dict[str, Any] | None = None,
    life_timeout_s: float | None = None,
    warm_up: bool = True,
) -> Iterator[Executor]:
    """An executor for the subject `spec`, perhaps with a planted bug. Raises `SubjectError`, `ForkServerError`.

    `life_timeout_s`: None takes the subject's own. `warm_up`: not worth its while for a few lives.
    """
    subject = load_subject(spec)
    try:
        python = python_of(subject.environment)
    except NotInstalled as error:
        raise SubjectError(f"subject {spec!r} cannot be run: {error}") from error
    timeout_s = subject.life_timeout_s if life_timeout_s is None else life_timeout_s
    with ExitStack() as servers:

        def serve(cold: bool) -> ForkServer:
            setup = {"subject": spec, "planted": planted, "warm_up": warm_up and not cold}
            # Cold lives share what the first of them compiles, also where Python is told to keep nothing.
            env = {"PYTHONPYCACHEPREFIX": str(warm.root / "pycache"), "PYTHONDONTWRITEBYTECODE": ""} if cold else None
            server = ForkServer(_LIFE, life_timeout_s=timeout_s, setup=setup, cold=cold, env=env, python=python)
            return servers.enter_context(server)

        warm = serve(cold=False)
        yield Executor(warm, subject, cache(lambda: serve(cold=True)), cache(lambda: serve(cold=False)))
