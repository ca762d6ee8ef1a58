"""Where the campaign loses power: small scripts, at every crash point they pass, with every loss that differs there.

Like the sweep (sweep.py), with another kind of kill: at the 1st, 2nd, 3rd ... crash point, until a life gets through.
At each, first all is lost that was not synced; the life says in its last line which of the other losses would have left
yet another state, and those follow. Where everything was synced there are none. With two deaths, the first is a kill of
the process or a loss of all, wherever it leaves a state of its own. Of kills that leave the same bytes the first is
followed: those after it have synced more of the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from itertools import count, product

from crashtests.evidence import Evidence, LifeEvidence
from crashtests.kinds import SWEPT
from crashtests.schedule import Kill, Schedule, Turn
from crashtests.subject import Subject
from crashtests.sweep import CORNERS, Task

ALL_OF_IT = "!"

# Places in the list of stores and protocols (json marks, json no-marks, sqlite marks, sqlite no-marks, as far as the
# subject has them), one for each tool of `SWEPT`. On json a life has twice the crash points, each with more to lose.
_IN_TURN = (2, 3, 0, 2)

# What a resume finds may be in the page cache only: killed with a name not yet synced, then power lost in the resume.
_FOUND = Kill("save-a.renamed")
_NOT_SYNCED_YET = Schedule((Turn(("mail",)),), marks=False, kills=(_FOUND,))

Execute = Callable[[Schedule, int, str], Evidence]


def tasks(subject: Subject, profile: str) -> list[Task]:
    """The schedules to lose power in, after their own kills, with how many deaths each is given; simplest first."""
    pairs = list(product(subject.power_stores, subject.protocols))
    if not pairs:
        return []
    deaths: dict[Schedule, int] = {}
    for place, kind in zip(_IN_TURN, SWEPT, strict=True):
        chosen = {"default": [pairs[place % len(pairs)]], "soak": pairs, "probe": pairs[:1]}[profile]
        deaths |= {Schedule((Turn((kind,)),), store=store, marks=m): 1 + (profile == "soak") for store, m in chosen}
    if profile == "soak":
        for corner, (store, marks) in product(CORNERS, pairs):
            deaths.setdefault(replace(corner, store=store, marks=marks), 1)
    if _NOT_SYNCED_YET.store in subject.power_stores and _FOUND.label in subject.labels(_NOT_SYNCED_YET):
        deaths[_NOT_SYNCED_YET] = 1
    return [Task(base, deaths[base]) for base in sorted(deaths, key=Schedule.size) if subject.takes(base)]


def losses(task: Task, execute: Execute) -> Iterator[Evidence]:
    """Evidence of each loss of power, in order; `execute(base, k, loss)` has it at the k-th crash point of a life.

    With two deaths that of each first one as well.
    """
    branches: set[Hashable] = set()
    for first in ("", ALL_OF_IT) if task.kills > 1 else ():
        for evidence in _at_every_point(task.base, execute, first):
            yield evidence
            if evidence.branch is None or evidence.branch not in branches:
                branches.add(evidence.branch)
                yield from losses(Task(evidence.schedule, task.kills - 1), execute)
    for evidence in _at_every_point(task.base, execute, ALL_OF_IT):
        yield evidence
        k = len(_life(evidence, task.base).passed)
        others = (other for event in _life(evidence, task.base).of("power") for other in event["others"])
        yield from (execute(task.base, k, other) for other in others)


def _at_every_point(base: Schedule, execute: Execute, loss: str) -> Iterator[Evidence]:
    """Evidence of a death at each crash point of the life after the base's own kills, and that of none at all."""
    for k in count(1):
        evidence = execute(base, k, loss)
        yield evidence
        life = _life(evidence, base)
        if life.killed_at is None:
            break
    if k - 1 != len(life.passed):
        raise AssertionError(f"'{base}': {k - 1} deaths, but a life that is left alone passes {len(life.passed)}")


def _life(evidence: Evidence, base: Schedule) -> LifeEvidence:
    return [life for life in evidence.lives if life.status != "missing"][len(base.kills)]
