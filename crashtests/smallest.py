"""Establish the smallest schedule that shows each planted bug, by going through all schedules in order of size.

Nothing is drawn and nothing is shrunk: every schedule of the bound is executed, smallest first, until one breaks the
bug's guarantee. The bound: without a death, also with a resume of the run that has ended, up to 2 turns and 2 calls,
one of them of any kind, or 1 call and one thing that is not plain (a store, the protocol, the end, a block ...); with
one death anywhere, or a run that has ended and is resumed with a hindrance, up to 2 turns and 1 call of any kind with
one thing that is not plain, or 2 calls of the swept kinds; with two deaths anywhere, up to 2 turns and 1 call of the
swept kinds. For a bug that only a loss of power shows, each of these deaths may be one, or with two of them the last,
on any store. Takes seconds for a bug that needs no death, minutes for one that needs two.

Exit status: 0, all are as listed; 1, some are not; 2, there is no bug of that name.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, product

from crashtests.bugs import POWER_LOSS, NoSuchBug, bugs_named
from crashtests.contract import violations
from crashtests.evidence import Evidence
from crashtests.execute import Executor, SubjectFault, executor
from crashtests.kinds import BLOCKS, ENDS, FIRST_ASKS, SWEPT, TOOL_KINDS
from crashtests.replay import USAGE, complain
from crashtests.schedule import HINDRANCES, LOSSES, PAUSED, Hindrance, Plan, Schedule, Turn
from crashtests.shrink import order
from crashtests.sweep import Task, sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="BUG", nargs="*", help="the name of a planted bug (default: all)")
    parser.epilog = (__doc__ or "").partition("\n\n")[2]


def run(options: argparse.Namespace) -> int:
    try:
        bugs = bugs_named(options.names)
    except NoSuchBug as error:
        return complain(str(error), USAGE)
    different = 0
    for bug in bugs:
        with executor(planted=bug.planted) as execute:
            found = smallest(execute, bug.guarantee, power=bug.family == POWER_LOSS)
            lives = execute.lives
        different += str(found) != bug.smallest
        listed = "as listed" if str(found) == bug.smallest else f"LISTED AS {bug.smallest}"
        print(f"{bug.name}: {bug.guarantee}, {found or 'nothing in the bound'} ({listed}; {lives} lives)", flush=True)
    return 1 if different else 0


def smallest(execute: Executor, guarantee: str, *, power: bool = False) -> Schedule | None:
    """The first schedule of the bound, in order of size, that breaks `guarantee`; None if none does.

    Of schedules that are equal but for where they are killed, it is the one that is killed first. `power`: the last
    kill may be a loss of power.
    """
    for deaths, scripts in enumerate(_scripts_of_the_bound(execute)):
        # A tool that ends the process is a death like a kill.
        bases = [script for script in scripts if script.ending_calls <= deaths]
        searches = [(base, loss) for base in bases for loss in _losses(execute, base, power=power and deaths > 0)]
        for _, group in groupby(sorted(searches, key=_size_and_order), key=lambda search: _size_and_order(search)[0]):
            failing = [
                (order(schedule), place, schedule)
                for base, loss in group
                for place, schedule in enumerate(_failing(execute, base, deaths - base.ending_calls, guarantee, loss))
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


def _failing(execute: Executor, base: Schedule, kills: int, guarantee: str, loss: str) -> Iterator[Schedule]:
    """The schedules with this script and so many kills that break the guarantee, those that are killed early first."""

    def kill(base: Schedule, k: int | None) -> Evidence:
        return execute.execute(base, kill_at=k, loss=loss if len(base.kills) == kills - 1 else "")

    try:
        # Without a kill, an earlier run, or a tool that ends the process, a run is the uninterrupted one.
        alone = execute.execute if base.ending_calls or base.over else execute.reference
        evidences = sweep(Task(base, kills), kill) if kills else iter([alone(base)])
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
    one_call = list(_scripts(list(TOOL_KINDS), 1))
    two_calls = [script for script in _scripts(list(TOOL_KINDS), 2) if _kinds_not_swept(script) <= 1]
    not_plain = [other for script in one_call for other in _one_thing_more(script, execute)]
    swept = list(_scripts(SWEPT, 2))
    return (
        [*two_calls, *not_plain],
        [*one_call, *not_plain, *(script for script in swept if script not in one_call)],
        list(_scripts(SWEPT, 1)),
    )


def _kinds_not_swept(script: Schedule) -> int:
    return sum(call not in SWEPT for turn in script.turns for call in turn.calls)


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
    yield replace(script, over=True)
    yield from (replace(script, end=end) for end in ENDS if end != script.end)
    for place, turn in enumerate(script.turns):
        for word in (*BLOCKS, *FIRST_ASKS) if turn.calls else ():
            other = Turn(turn.calls, (word,))
            yield replace(script, turns=(*script.turns[:place], other, *script.turns[place + 1 :]))
