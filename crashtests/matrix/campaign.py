"""One subject of the matrix: runs its plan, judges what happened, and writes each run as a line of raw evidence.

A record is `{"part", "planned", "happened", "fired", "repeat", "broken": {guarantee: [sentence]}, "fault", "seconds",
"lives": [...]}`, a life `{"number", "resume", "status", "killed", "witness", "signal", "lived_on", "exit_status",
"events"}` with the events of the world's log; `lived_on` is `[processes, seconds]` of what was left alone when the host
was killed. Where two resumes ran at once, `hold` is where the first of them waited.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, TextIO

from crashtests.evidence import Evidence, LifeEvidence
from crashtests.execute import Executor, SubjectFault
from crashtests.matrix import judge, plan, verdicts
from crashtests.rivals import NotThere, Rivals, run_rivals
from crashtests.schedule import Kill, Schedule, parse
from crashtests.scripted import MODEL_ASKED
from crashtests.subject import Subject
from crashtests.world import BEFORE_EFFECT

Record = dict[str, Any]

# How often a schedule is run on a subject that has races.
RACE_RUNS = 3
# Of the schedules that broke a guarantee how many are run again, until one shows it again, and how often each.
CANDIDATES_MAX = 6
CONFIRM_RUNS = 10
CONFIRM_RUNS_IF_SLOW = 6
# How often in all the smallest of them is run, if none of them has shown it once more.
STUBBORN_RUNS = 50
STUBBORN_RUNS_IF_SLOW = 12
# How often to try again for a kill that was not reached, on a subject that has races.
FIRE_TRIES = 8
RIVALS_MAX = 8
# Where a resume waits while another runs beside it: the first of these that it passes.
_HOLDS = (BEFORE_EFFECT, MODEL_ASKED, "before-model", "after-load")


class Runner:
    """Runs one subject. `file` gets the records; `until` is when to stop, by `clock`."""

    def __init__(self, execute: Executor, file: TextIO, until: float, clock: Callable[[], float] = time.monotonic):
        self._execute = execute
        self._file = file
        self._until = until
        self._clock = clock
        self.records: list[Record] = []
        """What was written, without the lives."""
        self.left_out = 0
        self._repeats: Counter[str] = Counter()
        self._seen: dict[tuple[str, Schedule], Evidence | None] = {}

    def run(self) -> None:
        """All of the plan, then two resumes at once, then again the smallest schedules of each thing that is broken."""
        subject = self._execute.subject
        for item in plan.items(subject, self._once):
            self._once(item)
            for repeat in range(1, _runs(subject, item.part)):
                self._run(item, repeat)
        for schedule, hold in islice(self._rival_runs(), RIVALS_MAX):
            self._run_rivals(schedule, hold)
        for guarantee in judge.COLUMNS:
            self._confirm(guarantee)

    def _once(self, item: plan.Item) -> Evidence | None:
        key = (item.part, item.schedule)
        if key not in self._seen:
            self._seen[key] = self._run(item, 0)
            # Where threads race, the kill before it may leave now this and now that, and so the resume passes now this
            # and now that.
            again = item.must_fire and item.part not in plan.MAY_MISS and self._execute.subject.races
            for _ in range(FIRE_TRIES if again else 0):
                if self.records[-1]["fired"]:
                    break
                self._seen[key] = self._run(item, 0)
        return self._seen[key]

    def _confirm(self, guarantee: str) -> None:
        """Run what broke it again, the smallest first, until one shows it."""
        slow = self._execute.subject.slow
        lines = verdicts.candidates(self.records, guarantee)[:CANDIDATES_MAX]
        for line in lines:
            self._repeat(line, CONFIRM_RUNS_IF_SLOW if slow else CONFIRM_RUNS)
            if verdicts.again(self.records, guarantee, line).shows:
                return
        if lines and not any(verdicts.again(self.records, guarantee, line).n for line in lines):
            self._repeat(lines[0], STUBBORN_RUNS_IF_SLOW if slow else STUBBORN_RUNS)

    def _repeat(self, line: str, runs: int) -> None:
        """Run it again until that has been done so often."""
        for repeat in range(self._repeats[line], runs):
            self._run(plan.Item(verdicts.CONFIRM, parse(line)), repeat)
        self._repeats[line] = max(runs, self._repeats[line])

    def _run(self, item: plan.Item, repeat: int) -> Evidence | None:
        if self._late():
            return None
        begin = time.perf_counter()
        try:
            evidence = self._execute.again(item.schedule, cold=False)
            reference = self._execute.reference(item.schedule)
        except SubjectFault as fault:
            self._write(_fault_record(item, repeat, fault))
            return None
        record = {
            "part": item.part,
            "planned": str(item.schedule),
            "happened": str(evidence.schedule),
            "fired": not item.must_fire or _as_planned(evidence),
            "repeat": repeat,
            "broken": judge.broken(evidence, reference, self._execute.subject),
            "fault": "",
            "seconds": round(time.perf_counter() - begin, 4),
            "lives": [_life(life) for life in evidence.lives],
        }
        self._write(record)
        return evidence

    def _run_rivals(self, schedule: Schedule, hold: Kill) -> None:
        if self._late():
            return
        begin = time.perf_counter()
        try:
            found = run_rivals(self._execute, schedule, hold)
        except NotThere as error:
            self._write(_rivals_record(schedule, hold, None, str(error), 0.0))
            return
        self._write(_rivals_record(schedule, hold, found, "", time.perf_counter() - begin))

    def _rival_runs(self) -> Iterator[tuple[Schedule, Kill]]:
        """Each first kill whose resume found something to resume, with where that is to wait."""
        for (part, schedule), evidence in list(self._seen.items()):
            if part != plan.KILL or evidence is None or len(evidence.lives) < 2:
                continue
            (kill,) = schedule.kills
            if (
                not isinstance(kill, Kill)
                or kill.label not in plan.FIRST_KILLS
                or evidence.lives[1].status == "missing"
            ):
                continue
            passed = evidence.points(1)
            with suppress(StopIteration):
                yield schedule, next(point for label in _HOLDS for point in passed if point == Kill(label))

    def _late(self) -> bool:
        late = self._clock() > self._until
        self.left_out += late
        return late

    def _write(self, record: Record) -> None:
        self.records.append({key: value for key, value in record.items() if key != "lives"})
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()


def _as_planned(evidence: Evidence) -> bool:
    """Whether every kill fired, and none of a host alone left nothing that could live on."""
    in_vain = any(life.killed_at.alone and not life.death.lived_on for life in evidence.lives if life.killed_at)
    return not evidence.overruns and not in_vain


def _runs(subject: Subject, part: str) -> int:
    """How often to run each schedule of a part."""
    if subject.slow:
        return 1
    chance = {plan.KILL: subject.races, plan.PARALLEL: subject.races or subject.parallel}
    return RACE_RUNS if chance.get(part) else 1


def _fault_record(item: plan.Item, repeat: int, fault: SubjectFault) -> Record:
    # A life that never ends is one that no resume has finished; any other fault is one of the subject's file.
    wedged = {judge.NOT_WEDGED: [fault.problem]} if fault.timed_out else {}
    return {
        "part": item.part,
        "planned": str(item.schedule),
        "happened": str(item.schedule),
        "fired": fault.timed_out,
        "repeat": repeat,
        "broken": wedged,
        "fault": str(fault),
        "seconds": 0.0,
        "lives": [],
    }


def _rivals_record(schedule: Schedule, hold: Kill, found: Rivals | None, fault: str, seconds: float) -> Record:
    says = found.violations() if found else []
    hung = found is not None and any(life.death.timed_out for life in found.lives)
    return {
        "part": plan.RIVALS,
        "planned": str(schedule),
        "happened": str(schedule),
        "hold": str(hold),
        "fired": found is not None,
        "repeat": 0,
        "broken": {judge.ONE_OWNER: says} if says else {},
        "fault": fault or ("a life did not end within its time limit" if hung else ""),
        "seconds": round(seconds, 4),
        "lives": [_life(life) for life in found.lives] if found else [],
    }


def _life(life: LifeEvidence) -> Record:
    return {
        "number": life.number,
        "resume": life.resume,
        "status": life.status,
        "killed": str(life.killed_at) if life.killed_at else None,
        "witness": life.death.witness,
        "signal": life.death.signal,
        "lived_on": [life.death.lived_on, round(life.death.lived_on_s, 3)],
        "exit_status": life.death.exit_status,
        "events": life.events,
    }
