"""Establish the smallest schedule that shows each planted bug, by going through all schedules in order of size.

Nothing is drawn and nothing is shrunk: every schedule of the bound is executed, smallest first, until one breaks the
bug's guarantee. Its scripts have up to 2 turns: 1 call of any kind; 2 calls of the swept kinds; none or 1 of the swept
kinds and one thing that is not plain (a store, the protocol, the end, a block, an earlier run on any store ...). Each
without a death, also with a resume of the run that has ended; each with one death anywhere, or with a resume of the
ended run that is hindered; those of up to 1 call of the swept kinds with two deaths anywhere. For a bug that only a
loss of power shows, each of these deaths may be one, or with two of them the last, on any store.

Exit status: 0, all are as listed; 1, some are not; 2, there is no bug of that name.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, product

from crashtests.bugs import POWER_LOSS, NoSuchBug, PlantedBug, bugs_named
from crashtests.contract import violations
from crashtests.evidence import Evidence
from crashtests.execute import Executor, SubjectFault, executor
from crashtests.kinds import BLOCKS, ENDS, FIRST_ASKS, SWEPT, TOOL_KINDS
from crashtests.replay import USAGE, complain
from crashtests.schedule import HINDRANCES, LOSSES, PAUSED, Hindrance, Plan, Schedule, Turn
from crashtests.shrink import order
from crashtests.sweep import Task, sweep, tasks_of
from crashtests.workers import add_jobs, workers


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
    with workers(options.jobs) as pool:
        for bug, (found, lives) in zip(bugs, pool.map(_of, bugs), strict=True):
            different += found != bug.smallest
            listed = "as listed" if found == bug.smallest else f"LISTED AS {bug.smallest}"
            shown = found or "nothing in the bound"
            print(f"{bug.name}: {bug.guarantee}, {shown} ({listed}; {lives} lives)", flush=True)
    print(f"\nas listed: {len(bugs) - different} of {len(bugs)}")
    return 1 if different else 0


def _of(bug: PlantedBug) -> tuple[str | None, int]:
    """The smallest schedule of the bound that shows the bug, and how many lives it took to establish."""
    with executor(planted=bug.planted) as execute:
        found = smallest(execute, bug.guarantee, power=bug.family == POWER_LOSS)
        return None if found is None else str(found), execute.lives


def smallest(execute: Executor, guarantee: str, *, power: bool = False) -> Schedule | None:
    """The first schedule of the bound, in order of size, that breaks `guarantee`; None if none does.

    Of schedules that are equal but for where they are killed, it is the one that is killed first. `power`: the last
    kill may be a loss of power.
    """
    for deaths, scripts in enumerate(_scripts_of_the_bound(execute)):
        # A tool that ends the process is a death like a kill.
        kills = {script: deaths - script.ending_calls for script in scripts if script.ending_calls <= deaths}
        tasks = {task.base: task for task in tasks_of(kills)}
        searches = [(base, loss) for base in tasks for loss in _losses(execute, base, power=power and deaths > 0)]
        for _, group in groupby(sorted(searches, key=_size_and_order), key=lambda search: _size_and_order(search)[0]):
            failing = [
                (order(schedule), place, schedule)
                for base, loss in group
                for place, schedule in enumerate(_failing(execute, tasks[base], guarantee, loss))
            ]
            if failing:
                return min(failing, key=lambda each: each[:2])[2]
    return None


def _losses(execute: Executor, base: Schedule, *, power: bool) -> Sequence[str]:
    return list(LOSSES) if power and base.store in execute.subject.power_stores and not base.ending_calls else [""]


def _size_and_order(search: tuple[Schedule, str]) -> tuple[tuple[int, ...], object]:
    """Turns, calls, tools and what is not plain, as they are with this loss of power; and the order of equals."""
    base, loss = search
    turns, calls, tools, odd = base.size()[1:5]
    return (turns, calls, tools, odd + list(LOSSES).index(loss)), order(base)


def _failing(execute: Executor, task: Task, guarantee: str, loss: str) -> Iterator[Schedule]:
    """The schedules of this task that break the guarantee, those that are killed early first."""
    base, kills = task.base, task.kills

    def kill(base: Schedule, k: int | None) -> Evidence:
        return execute.execute(base, kill_at=k, loss=loss if len(base.kills) == kills - 1 else "")

    try:
        # Without a kill, an earlier run, or a tool that ends the process, a run is the uninterrupted one.
        alone = execute.execute if base.ending_calls or base.over else execute.reference
        evidences = sweep(task, kill) if kills else iter([alone(base)])
        # A run that has ended, and is resumed.
        resumes: dict[int, list[Plan]] = {0: [None], 1: [Hindrance(how) for how in HINDRANCES]}
        resumed = (execute.execute(replace(base, kills=(None, plan))) for plan in resumes.get(kills, []))
        for evidence in chain(evidences, resumed):
            killed = sum(kill is not None for kill in evidence.schedule.kills)
            if killed == kills:
                found = violations(evidence, execute.reference(evidence.schedule), execute.subject)
                if any(violation.guarantee == guarantee for violation in found):
                    yield evidence.schedule
    except SubjectFault:
        return  # no schedule that can be judged is lost: faults are not what a planted bug is listed for


def _scripts_of_the_bound(execute: Executor) -> Sequence[list[Schedule]]:
    """Those that go without a death, those with one, and those with two."""
    swept = list(_scripts(SWEPT, 1))
    not_plain = [other for script in swept for other in _one_thing_more(script, execute)]
    scripts = list(dict.fromkeys([*_scripts(list(TOOL_KINDS), 1), *_scripts(SWEPT, 2), *not_plain]))
    return scripts, scripts, swept


def _scripts(kinds: Sequence[str], calls_max: int) -> Iterator[Schedule]:
    """Plain scripts of up to 2 turns with up to so many calls in all."""
    turns = [PAUSED, *(Turn(calls) for n in range(1, calls_max + 1) for calls in product(kinds, repeat=n))]
    for length in range(3):
        for script in product(turns, repeat=length):
            if sum(len(turn.calls) for turn in script) <= calls_max:
                yield Schedule(script)


def _one_thing_more(script: Schedule, execute: Executor) -> Iterator[Schedule]:
    """The script with one thing that is not plain."""
    yield from (replace(script, store=store) for store in execute.subject.stores if store != script.store)
    yield from (replace(script, marks=marks) for marks in execute.subject.protocols if marks != script.marks)
    yield from (replace(script, over=True, store=store) for store in execute.subject.stores)
    yield from (replace(script, end=end) for end in ENDS if end != script.end)
    for place, turn in enumerate(script.turns):
        for word in (*BLOCKS, *FIRST_ASKS) if turn.calls else ():
            other = Turn(turn.calls, (word,))
            yield replace(script, turns=(*script.turns[:place], other, *script.turns[place + 1 :]))
