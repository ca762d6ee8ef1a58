"""What the matrix runs on each subject: small scripts, killed at every crash point that they pass. Data and its order.

First every script without a kill, the control; then each crash point that the control passed, by label and count, so
that each kill is planned and can be seen to have fired; then, from what the first kills have left, every crash point
of the resume; then crash loops. Where a framework runs a process of its own, also kills of the host alone; and where
code cannot be reached, kills at delays after an event. Nothing is drawn at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from crashtests.evidence import Evidence
from crashtests.schedule import Kill, Schedule, Turn
from crashtests.scripted import MODEL_ANSWERED
from crashtests.subject import Subject
from crashtests.world import AFTER_EFFECT, BEFORE_EFFECT

Execute = Callable[[Schedule], Evidence | None]

CONTROL = "no kill"
KILL = "one kill"
PARALLEL = "one kill, parallel calls"
AGAIN = "a kill, and one in its resume"
LOOP = "killed at one place in the start and three resumes"
HOST = "the host alone killed"
DELAYED = "killed at a delay"
RIVALS = "two resumes at once"
PARTS = (CONTROL, KILL, PARALLEL, AGAIN, LOOP, HOST, DELAYED, RIVALS)
KILLS = (KILL, PARALLEL, AGAIN, LOOP, HOST, DELAYED)
# Where a run that does not come about is no run, and nothing is wrong: a resume never came to where it should wait, or
# a life had ended before its kill was due.
MAY_MISS = (DELAYED, RIVALS)

LOOP_KILLS = 4
DELAYS_MS = (1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 150, 300)

# One call; two calls that a harness may run in parallel; a turn behind a finished one, with a tool of each class.
_SINGLE = Schedule((Turn(("pay",)),))
_SCRIPTS = {
    _SINGLE: KILL,
    Schedule((Turn(("pay", "pay")),)): PARALLEL,
    Schedule((Turn(("read",)), Turn(("pay",)))): KILL,
    Schedule((Turn(("pay",)), Turn(("put",)))): KILL,
}
_SCRIPTS_IF_SLOW = 2
# Where the resume of a first kill differs most: the answer lost, nothing done, all done.
FIRST_KILLS = (MODEL_ANSWERED, BEFORE_EFFECT, AFTER_EFFECT)


@dataclass(frozen=True, slots=True)
class Item:
    """A schedule to run, and the part of the matrix that it belongs to.

    `must_fire`: a kill that is not reached makes what was found invalid; if not, it says where a loop came to its end.
    """

    part: str
    schedule: Schedule
    must_fire: bool = True


def scripts(subject: Subject) -> dict[Schedule, str]:
    """The scripts, with the options that the subject has, and the part that their kills belong to."""
    store, marks = subject.stores[0], subject.protocols[0]
    some = dict(list(_SCRIPTS.items())[:_SCRIPTS_IF_SLOW]) if subject.slow else _SCRIPTS
    return {replace(s, store=store, marks=marks): part for s, part in some.items() if subject.takes(s)}


def killed(script: Schedule, *kills: Kill) -> Schedule:
    """The script with these kills."""
    return replace(script, kills=kills)


def items(subject: Subject, execute: Callable[[Item], Evidence | None]) -> Iterator[Item]:
    """Everything to run, in order. `execute` is asked for what unkilled and killed lives pass; None if that failed."""
    points: dict[Schedule, list[Kill]] = {}
    for script in scripts(subject):
        control = Item(CONTROL, script)
        yield control
        if evidence := execute(control):
            points[script] = evidence.points(0)
    for script, part in scripts(subject).items():
        for kill in points.get(script, ()):
            yield Item(part, killed(script, kill))
    single = next(iter(scripts(subject)), None)
    if single is None:
        return
    for kill in [kill for kill in points.get(single, ()) if kill in _moments(subject)]:
        first = execute(Item(KILL, killed(single, kill)))
        for second in first.points(1) if first is not None else ():
            yield Item(AGAIN, killed(single, kill, second))
    for kill in points.get(single, ()):
        yield Item(LOOP, killed(single, *[kill] * LOOP_KILLS), must_fire=False)
    for script, passed in points.items():
        for kill in passed if subject.starts_processes else ():
            yield Item(HOST, killed(script, replace(kill, alone=True)))
    for event, delay_ms in product(subject.delayed, DELAYS_MS):
        yield Item(DELAYED, killed(single, replace(event, delay_ms=delay_ms)))


def _moments(subject: Subject) -> set[Kill]:
    return {*subject.moments, *(Kill(label) for label in FIRST_KILLS)}
