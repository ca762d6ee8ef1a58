"""Establish the smallest schedule that shows each planted bug, by going through all schedules in order of size.

Nothing is drawn and nothing is shrunk: every schedule of the bound is executed, smallest first, until one breaks the
bug's guarantee. Its scripts have up to 2 turns: 1 call of any kind; 2 calls of the swept kinds; none or 1 of the swept
kinds and one thing that is not plain (a store, the protocol, the end, a block, an earlier run on any store ...). Each
without a death, also with a resume of the run that has ended; each with one death anywhere, or with a resume of the
ended run that is hindered; those of up to 1 call of the swept kinds with two deaths anywhere. For a bug that only a
loss of power shows, each of these deaths may be one, or with two of them the last, on any store.

A schedule of which it is known that no life of it meets the bug's edit (reach.py) is not executed again: it does what
the harness without the bug does, and holds.

Exit status: 0, all are as listed; 1, some are not; 2, there is no bug of that name.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, product

from crashtests.bugs import POWER_LOSS, NoSuchBug, PlantedBug, bugs_named
from crashtests.contract import violations
from crashtests.edited import Lines, edited
from crashtests.evidence import Evidence
from crashtests.execute import OURS, Executor, SubjectFault, executor
from crashtests.kinds import BLOCKS, ENDS, FIRST_ASKS, SWEPT, TOOL_KINDS
from crashtests.reach import Reach, survey
from crashtests.replay import USAGE, complain
from crashtests.schedule import HINDRANCES, LOSSES, PAUSED, Hindrance, Plan, Schedule, Turn
from crashtests.shrink import order
from crashtests.subject import Subject, load_subject
from crashtests.sweep import Task, sweep, tasks_of
from crashtests.workers import add_jobs, workers

# To see what all schedules reach takes as long as to go through all of them for one or two bugs.
REACH_FROM_BUGS = 4
# More parts than processes, since some take longer.
SURVEYS_A_JOB = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="BUG", nargs="*", help="the name of a planted bug (default: all)")
    add_jobs(parser, "bugs")
    parser.epilog = (__doc__ or "").partition("\n\n")[2]


def run(options: argparse.Namespace) -> int:
    try:
        bugs = bugs_named(options.names)
    except NoSuchBug as error:
        return complain(str(error), USAGE)
    if options.jobs < 1:
        return complain("--jobs must be at least 1", USAGE)
    different = 0
    reach = _reach(options.jobs) if len(bugs) >= REACH_FROM_BUGS else Reach()
    with workers(options.jobs, _begin, reach) as pool:
        for bug, (found, lives) in zip(bugs, pool.map(_of, bugs), strict=True):
            different += found != bug.smallest
            listed = "as listed" if found == bug.smallest else f"LISTED AS {bug.smallest}"
            shown = found or "nothing in the bound"
            print(f"{bug.name}: {bug.guarantee}, {shown} ({listed}; {lives} lives)", flush=True)
    print(f"\nas listed: {len(bugs) - different} of {len(bugs)}")
    return 1 if different else 0


def _reach(jobs: int) -> Reach:
    """What all schedules of the bound reach, but for losses of power: seen by so many processes at a time."""
    reach = Reach()
    bound = [task for tasks in _tasks_of_the_bound(load_subject(OURS)) for task in tasks.values()]
    # What is given two kills is given one as well.
    tasks = list({task.base: task for task in sorted(bound, key=lambda task: task.kills)}.values())
    others = [schedule for task in bound for schedule in resumes(task)]
    parts = SURVEYS_A_JOB * jobs
    with workers(jobs) as pool:
        seen = [pool.submit(survey, tasks[part::parts], others[part::parts]) for part in range(parts)]
        for part in seen:
            reach.merge(part.result())
    return reach


_reached = Reach()


def _begin(reach: Reach) -> None:
    """In a process of the pool."""
    global _reached
    _reached = reach


def _of(bug: PlantedBug) -> tuple[str | None, int]:
    """The smallest schedule of the bound that shows the bug, and how many lives it took to establish."""
    with executor(planted=bug.planted) as execute:
        search = Search(execute, bug.guarantee, _reached, edited(bug.edit))
        found = search.smallest(power=bug.family == POWER_LOSS)
        return None if found is None else str(found), execute.lives


@dataclass(frozen=True, slots=True)
class Search:
    """The search for the smallest schedule that breaks `guarantee`, on a harness with an edit.

    `met`: the lines at which the edit is met; None if that is not known. Only then is `reach` of no use.
    """

    execute: Executor
    guarantee: str
    reach: Reach = field(default_factory=Reach)
    met: Lines | None = None

    def smallest(self, *, power: bool = False) -> Schedule | None:
        """The first schedule of the bound, in order of size, that breaks the guarantee; None if none does.

        Of schedules that are equal but for where they are killed, it is the one that is killed first. `power`: the
        last kill may be a loss of power.
        """
        for deaths, tasks in enumerate(_tasks_of_the_bound(self.execute.subject)):
            searches = [(base, loss) for base in tasks for loss in self._losses(base, power=power and deaths > 0)]
            for _, group in groupby(sorted(searches, key=_size_and_order), key=lambda each: _size_and_order(each)[0]):
                failing = [
                    (order(schedule), place, schedule)
                    for base, loss in group
                    for place, schedule in enumerate(self.failing(tasks[base], loss))
                ]
                if failing:
                    return min(failing, key=lambda each: each[:2])[2]
        return None

    def _losses(self, base: Schedule, *, power: bool) -> Sequence[str]:
        can_lose = power and base.store in self.execute.subject.power_stores and not base.ending_calls
        return list(LOSSES) if can_lose else [""]

    def failing(self, task: Task, loss: str) -> Iterator[Schedule]:
        """The schedules of this task that break the guarantee, those that are killed early first."""
        evidences = self._killed(task, loss) if task.kills else self._alone(task.base)
        resumed = (self.execute.execute(schedule) for schedule in resumes(task) if not self._misses(schedule))
        try:
            for evidence in chain(evidences, resumed):
                if sum(kill is not None for kill in evidence.schedule.kills) == task.kills:
                    reference = self.execute.reference(evidence.schedule)
                    found = violations(evidence, reference, self.execute.subject)
                    if any(violation.guarantee == self.guarantee for violation in found):
                        yield evidence.schedule
        except SubjectFault:
            return  # no schedule that can be judged is lost: faults are not what a planted bug is listed for

    def _alone(self, base: Schedule) -> Iterator[Evidence]:
        if not self._misses(base):
            # Without a kill, an earlier run, or a tool that ends the process, a run is the uninterrupted one.
            yield (self.execute.execute if base.ending_calls or base.over else self.execute.reference)(base)

    def _killed(self, task: Task, loss: str) -> Iterator[Evidence]:
        """Evidence of each kill that the edit can make a difference to. `loss`: what the last of them takes."""
        if loss or not self._misses(task.base):
            place = len(task.base.kills) + task.kills - 1
            yield from sweep(
                task,
                lambda base, k: self.execute.execute(base, kill_at=k, loss=loss if len(base.kills) == place else ""),
            )
            return
        for schedule in self.reach.kills.get(str(task.base), ()):
            if not self._misses(schedule):
                yield self.execute.execute(schedule)
            if task.kills > 1 and str(schedule) in self.reach.kills:
                yield from self._killed(Task(schedule, task.kills - 1), loss)

    def _misses(self, schedule: Schedule) -> bool:
        return self.met is not None and self.reach.misses(schedule, self.met)


def _size_and_order(search: tuple[Schedule, str]) -> tuple[tuple[int, ...], object]:
    """Turns, calls, tools and what is not plain, as they are with this loss of power; and the order of equals."""
    base, loss = search
    turns, calls, tools, odd = base.size()[1:5]
    return (turns, calls, tools, odd + list(LOSSES).index(loss)), order(base)


def resumes(task: Task) -> list[Schedule]:
    """The base, left alone, with a resume of what has ended: plain without a kill, hindered as the one death."""
    plans: dict[int, list[Plan]] = {0: [None], 1: [Hindrance(how) for how in HINDRANCES]}
    return [replace(task.base, kills=(None, plan)) for plan in plans.get(task.kills, [])]


def _tasks_of_the_bound(subject: Subject) -> Iterator[dict[Schedule, Task]]:
    """By base, the tasks of one death less than the next has; a tool that ends the process is a death like a kill."""
    for deaths, scripts in enumerate(_scripts_of_the_bound(subject)):
        kills = {script: deaths - script.ending_calls for script in scripts if script.ending_calls <= deaths}
        yield {task.base: task for task in tasks_of(kills)}


def _scripts_of_the_bound(subject: Subject) -> Sequence[list[Schedule]]:
    """Those that go without a death, those with one, and those with two."""
    swept = list(_scripts(SWEPT, 1))
    not_plain = [other for script in swept for other in _one_thing_more(script, subject)]
    scripts = list(dict.fromkeys([*_scripts(list(TOOL_KINDS), 1), *_scripts(SWEPT, 2), *not_plain]))
    return scripts, scripts, swept


def _scripts(kinds: Sequence[str], calls_max: int) -> Iterator[Schedule]:
    """Plain scripts of up to 2 turns with up to so many calls in all."""
    turns = [PAUSED, *(Turn(calls) for n in range(1, calls_max + 1) for calls in product(kinds, repeat=n))]
    for length in range(3):
        for script in product(turns, repeat=length):
            if sum(len(turn.calls) for turn in script) <= calls_max:
                yield Schedule(script)


def _one_thing_more(script: Schedule, subject: Subject) -> Iterator[Schedule]:
    """The script with one thing that is not plain."""
    yield from (replace(script, store=store) for store in subject.stores if store != script.store)
    yield from (replace(script, marks=marks) for marks in subject.protocols if marks != script.marks)
    yield from (replace(script, over=True, store=store) for store in subject.stores)
    yield from (replace(script, end=end) for end in ENDS if end != script.end)
    for place, turn in enumerate(script.turns):
        for word in (*BLOCKS, *FIRST_ASKS) if turn.calls else ():
            other = Turn(turn.calls, (word,))
            yield replace(script, turns=(*script.turns[:place], other, *script.turns[place + 1 :]))
