"""Where the campaign loses power: small scripts, at every crash point they pass, with every loss that differs there.

Like the sweep (sweep.py), with another kind of kill: at the 1st, 2nd, 3rd ... crash point, until a life gets through.
At each, first all is lost that was not synced; the life says in its last line which of the other losses would have left
yet another state, and those follow. Where everything was synced there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, product

from crashtests.evidence import Evidence
from crashtests.kinds import SWEPT
from crashtests.schedule import Kill, Schedule, Turn
from crashtests.subject import Subject

ALL_OF_IT = "!"

# Places in the list of stores and protocols (json marks, json no-marks, sqlite marks, sqlite no-marks, as far as the
# subject has them), one for each tool of `SWEPT`: what is never begun before it is known needs the fewest writes.
_IN_TURN = (2, 1, 0, 3)

# What a resume finds may be in the page cache only: killed with a name not yet synced, then power lost in the resume.
_FOUND = Kill("save-a.renamed")
_NOT_SYNCED_YET = Schedule((Turn(("mail",)),), marks=False, kills=(_FOUND,))


def bases(subject: Subject, profile: str) -> list[Schedule]:
    """The schedules to lose power in, after their own kills, simplest first."""
    if profile == "probe":
        found = [Schedule((Turn(("pay",)),), store=store) for store in subject.power_stores[:1]]
    else:
        found = list(_small(subject, in_turn=profile != "soak"))
    return sorted((base for base in found if subject.takes(base)), key=Schedule.size)


def _small(subject: Subject, *, in_turn: bool) -> Iterator[Schedule]:
    """Each script of one call on every store and with every protocol, or with one of these pairs in turn."""
    pairs = list(product(subject.power_stores, subject.protocols))
    for place, kind in zip(_IN_TURN, SWEPT, strict=True) if pairs else ():
        for store, marks in [pairs[place % len(pairs)]] if in_turn else pairs:
            yield Schedule((Turn((kind,)),), store=store, marks=marks)
    if _NOT_SYNCED_YET.store in subject.power_stores and _FOUND.label in subject.labels(Schedule(())):
        yield _NOT_SYNCED_YET


def losses(base: Schedule, execute: Callable[[Schedule, int, str], Evidence]) -> Iterator[Evidence]:
    """Evidence of each loss of power, in order; `execute(base, k, loss)` has it at the k-th crash point of a life."""
    for k in count(1):
        evidence = execute(base, k, ALL_OF_IT)
        yield evidence
        lives = [life for life in evidence.lives if life.status != "missing"]
        life = lives[len(base.kills)]
        if life.killed_at is None:
            break
        yield from (execute(base, k, other) for event in life.of("power") for other in event["others"])
    if k - 1 != len(life.passed):
        raise AssertionError(f"'{base}': power was lost {k - 1} times, but a life left alone passes {len(life.passed)}")
