"""The sweep: every script of a bounded size, killed at every crash point it passes. Exhaustive, no luck.

A script is run and killed at the 1st, 2nd, 3rd ... crash point it passes, until a life gets through without being
hit: that the loop ends is the proof that nothing was skipped. For two kills, the same is done again inside the resume
of each that left a state of its own: kills that leave the same bytes and the same world are followed once. The bound
is data; the number of kills it needs is counted a second time from what unkilled lives pass. A script is killed from
where it begins to differ from a simpler one: before that, it is that one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from crashtests.evidence import Evidence, LifeEvidence
from crashtests.kinds import BLOCKS, FIRST_ASKS, SWEPT, TOOL_KINDS
from crashtests.schedule import HINDRANCES, Hindrance, Kill, Schedule, Turn
from crashtests.subject import Subject
from crashtests.world import AFTER_EFFECT


@dataclass(frozen=True, slots=True)
class Bound:
    """All scripts of `turns` turns with 1 to `calls` calls each, and how many kills each is given.

    `pairs`: None takes each script on every store and, where they differ, with both protocols. Otherwise each takes one
    of these pairs of options, and `pairs` says which in turn, as places in the list (json marks, json no-marks, sqlite
    marks, sqlite no-marks, as far as the subject has them). `turning`: each session seed begins at another of them, so
    that as many seeds as there are pairs take every script with all options.
    """

    turns: int
    calls: int
    kills: int
    pairs: tuple[int, ...] | None = None
    turning: bool = False

    def __str__(self) -> str:
        times = "one kill" if self.kills == 1 else f"{self.kills} kills"
        calls = "1 call" if self.calls == 1 else f"up to {self.calls} calls"
        options = (
            "all options" if self.pairs is None else "options in turn" + ", another turn for each seed" * self.turning
        )
        return f"{self.turns} turn{'s' * (self.turns > 1)} x {calls}, {times}, {options}"


BOUNDS = {
    "default": (
        Bound(1, 1, 1),
        # json has so many crash points that two scripts of these on it are as many as there is time for.
        Bound(1, 2, 1, pairs=(3, 2, 3, 2, 1, 2, 3, 2, 3, 2, 3, 2, 0, 2, 3, 2), turning=True),
        Bound(2, 1, 1, pairs=(3, 2, 3, 2, 3, 2, 3, 0, 3, 2, 3, 2, 3, 2, 3, 1), turning=True),
        # A second kill for each kill is dear, and sqlite has the fewest crash points; for json there is `_MOMENTS`.
        Bound(1, 1, 2, pairs=(-1, -1, -2, -2)),
    ),
    "soak": (Bound(1, 2, 2), Bound(2, 2, 1)),
    # For tests of sessions: too small to meet the gates.
    "probe": (Bound(1, 1, 1, pairs=(0, 3)),),
}

# What the scripts of a bound do not reach: a run over an earlier one, a response that is cut, a paused turn, a refusal,
# a tool that the model makes up, and a verify that is of no help.
CORNERS = (
    Schedule((Turn(("read",)),), over=True),
    Schedule((Turn(("pay",), ("!max_tokens",)),)),
    Schedule((Turn(("pay",), ("!max_tokens",)),), kills=(None,)),
    Schedule((Turn(("read",)), Turn(("pay",), ("!max_tokens",))), kills=(Kill(AFTER_EFFECT),)),
    Schedule((Turn((), ("pause",)), Turn(("read",)))),
    Schedule((Turn(("pay",)),), end="refusal"),
    Schedule((Turn(("ghost",)),)),
    Schedule((Turn(("guess",)),)),
)

# What need not be killed everywhere: each way in which a turn may have to be asked for again, a verify that raises or
# finds a failure, tools that raise or end their process, a limit of turns, blocks that are none of a harness's
# business, odd outputs, also recorded ones, and many turns.
_ONCE = (
    *(Schedule((Turn(("pay",), (word,)),)) for word in FIRST_ASKS),
    Schedule((Turn(("pay",)), Turn(("pay",), ("!old_id",))), kills=(Kill(AFTER_EFFECT),)),
    Schedule((Turn(("blind",)),), kills=(Kill(AFTER_EFFECT),)),
    Schedule((Turn(("lapse",)),), kills=(Kill(AFTER_EFFECT),)),
    Schedule((Turn(("deny", "bounce")),)),
    Schedule((Turn(("quit",)),)),
    Schedule((Turn(("stop",)),)),
    Schedule((Turn(("pay",)),), end="limit"),
    Schedule((Turn(("pay",)),), end="limit", kills=(Kill(AFTER_EFFECT),)),
    Schedule((Turn(("read",), BLOCKS),), kills=(Kill(AFTER_EFFECT),)),
    Schedule((Turn(("empty", "zero", "dict", "big")),)),
    Schedule((Turn(("none", "bytes", "nan", "surrogate")),)),
    Schedule((Turn(("empty", "zero", "dict", "big")),), kills=(Kill(AFTER_EFFECT, 4),)),
    Schedule((Turn(("big", "blocks", "surrogate", "nan")),), kills=(Kill(AFTER_EFFECT, 4),)),
    # Longer than all others, for what only happens to a long conversation.
    Schedule((Turn(("read",)),) * 12),
)

# Two calls of one tool that may both have begun, of which one has: only without marks.
_BOTH_IN_DOUBT = Schedule((Turn(("mail", "mail")),), marks=False, kills=(Kill(AFTER_EFFECT),))

# Scripts that are killed at each of the subject's `moments`, and then, on the first of its stores, at every crash point
# of the resume.
_MOMENTS = (Schedule((Turn(("mail",)),)),)

_HINDERED = (Schedule((Turn(("pay",)),)),)

# A place in a life that none gets to.
_NEVER = 10**9


@dataclass(frozen=True, slots=True)
class Task:
    """A schedule without its last kills, which the sweep adds at every place: `kills` of them, 0 for one that is whole.

    `from_answer`: the first place is where the model gives this answer. Until then no harness can tell the script from
    a simpler one that is swept with the same options, so a kill leaves what it leaves there. 0: from the beginning.
    """

    base: Schedule
    kills: int
    from_answer: int = 0


def tasks(subject: Subject, profile: str, seed: int) -> list[Task]:
    """All of a profile's sweep, simplest scripts first. Each base is there once, with its largest number of kills.

    `seed` is that of the session.
    """
    kills: dict[Schedule, int] = {}
    for bound in BOUNDS[profile]:
        for place, turns in enumerate(_scripts(bound, [kind for kind in SWEPT if kind in subject.understands])):
            bases = list(_options(Schedule(turns), subject))
            if bound.pairs is not None:
                pair = bound.pairs[(place + bound.turning * seed) % len(bound.pairs)]
                bases = [bases[pair % len(bases)]]
            for base in bases:
                kills[base] = max(kills.get(base, 0), bound.kills)
    if profile == "probe":
        return [Task(base, kills[base]) for base in sorted(kills, key=Schedule.size)]
    for place, corner in enumerate(corner for corner in CORNERS if subject.takes(corner)):
        bases = list(_options(corner, subject))
        if profile != "soak":
            # With writes of their own, or after a kill: on each store. The rest takes options in turn.
            each_store = [base for base in bases if base.marks == bases[0].marks]
            own_writes = corner.over or corner.kills or any("!max_tokens" in turn.beside for turn in corner.turns)
            bases = each_store if own_writes else [bases[place % len(bases)]]
        kills.update({base: kills.get(base, 1) for base in bases})
    for script, moment in product(_MOMENTS, subject.moments):
        if subject.takes(script):
            kills[replace(next(_options(script, subject)), kills=(moment,))] = 1
    kills.update(dict.fromkeys(_hindered(subject), 0))
    kills.update({base: kills.get(base, 0) for base in _once(subject)})
    return list(tasks_of(kills))


def _once(subject: Subject) -> Iterator[Schedule]:
    for place, script in enumerate(script for script in _ONCE if subject.takes(script)):
        options = list(_options(script, subject))
        yield options[place % len(options)]
    if False in subject.protocols and subject.takes(_BOTH_IN_DOUBT):
        yield replace(_BOTH_IN_DOUBT, store=subject.stores[0])


def _hindered(subject: Subject) -> Iterator[Schedule]:
    """A script that is killed at each of the subject's moments, and then hindered in all ways, one after the other."""
    hindrances = tuple(Hindrance(how) for how in HINDRANCES if how in subject.hindrances)
    for script, moment, store in product(_HINDERED, subject.moments, subject.stores):
        if hindrances and subject.takes(script):
            yield replace(script, store=store, kills=(moment, *hindrances))


def tasks_of(kills: Mapping[Schedule, int]) -> Iterator[Task]:
    """A task for each base and its kills, smallest first, with the answer in which it differs from all before it."""
    swept: set[Schedule] = set()
    for base in sorted(kills, key=Schedule.size):
        starts = [replace(base, turns=base.turns[:n], end="end") for n in range(len(base.turns) + 1)]
        shared = [n for n, start in enumerate(starts) if start in swept]
        # A run with a limit is another from the beginning: the limit is saved with it.
        alike = not base.kills and base.turns_max is None
        yield Task(base, kills[base], max(shared) + 1 if shared and kills[base] == 1 and alike else 0)
        if alike and kills[base]:
            swept.update(starts)


def _scripts(bound: Bound, kinds: Sequence[str]) -> Iterator[tuple[Turn, ...]]:
    turns = [Turn(calls) for n in range(1, bound.calls + 1) for calls in product(kinds, repeat=n)]
    return product(turns, repeat=bound.turns)


def _options(schedule: Schedule, subject: Subject) -> Iterator[Schedule]:
    """The schedule on every store, and with both protocols where they differ: where a call can change the world."""
    differ = any(TOOL_KINDS[call].effect != "read_only" for call in schedule.tool_kinds())
    for store, marks in product(subject.stores, subject.protocols):
        if marks or differ or len(subject.protocols) == 1:
            yield replace(schedule, store=store, marks=marks)


def sweep(task: Task, execute: Callable[[Schedule, int | None], Evidence]) -> Iterator[Evidence]:
    """Evidence of each kill, in order; `execute(base, k)` kills at the k-th crash point after the base's own kills."""
    if not task.kills:
        yield execute(task.base, None)
        return
    place = len(task.base.kills)
    passed: int | None = None
    branches: set[Hashable] = set()
    k = first = _passed_before(task.from_answer, _life(execute(task.base, _NEVER), place)) if task.from_answer else 0
    while passed is None:
        k += 1
        evidence = execute(task.base, k)
        yield evidence
        life = _life(evidence, place)
        if life.killed_at:
            if task.kills > 1 and (evidence.branch is None or evidence.branch not in branches):
                branches.add(evidence.branch)
                yield from sweep(Task(evidence.schedule, task.kills - 1), execute)
        else:
            passed = points_passed(life)
    if k - 1 != passed:
        kills = f"{k - 1 - first} kills after the first {first} crash points"
        raise AssertionError(f"'{task.base}': {kills}, but a life that is left alone passes {passed}")


def _life(evidence: Evidence, place: int) -> LifeEvidence:
    """The life that a kill at `place` would hit: lives that found nothing to resume are not counted."""
    return [life for life in evidence.lives if life.in_plan][place]


def _passed_before(answer: int, life: LifeEvidence) -> int:
    """How many crash points a life passed before the model gave this answer, counted from 1."""
    passed = 0
    for event in life.events:
        passed += len(event["labels"]) if event["event"] == "at" else 0
        answer -= event["event"] == "answer"
        if not answer:
            break
    return passed


def points_passed(life: LifeEvidence) -> int:
    """How many crash points a life passed."""
    return len(life.passed)
