"""Shrinking: from a failing schedule to a smallest one that breaks the same guarantee. It knows what a schedule is.

Greedy descent: of all schedules one step simpler, the first that still fails is taken, until none does. "Simpler" is
`order`: fewest kills, then turns, then calls, then simplest tools. It begins with leaps: one thing of the script alone.
Since an edit of the script moves the passes of a crash point, the n of each kill is tried lower as well. Where no step
leads on, detours do: one kill less in exchange for another kind of call or for one call more, a kill in exchange for a
tool that ends its process, a simpler tool with the kill at its stage of another write, and the plain store or protocol,
whose crash points are others. At the end each kill is moved to the earliest crash point of its life that will do, so
that of many schedules of one size it is always the same that remains. Results are remembered (campaign.py), so it costs
little.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from crashtests.kinds import BLOCKS, ENDS, FIRST_ASKS, SWEPT, TOOL_KINDS
from crashtests.schedule import CALLS_MAX, LOSSES, PAUSED, STORES, Kill, Plan, Schedule, Turn
from crashtests.world import WORLD_POINTS

Fails = Callable[[Schedule], Schedule | None]
Passes = Callable[[Schedule, int], Sequence[Kill]]

_BESIDE = (*BLOCKS, *FIRST_ASKS)


def order(schedule: Schedule) -> tuple[object, ...]:
    """For sorting: by size, and schedules of one size by what is simpler in them, one thing after the other.

    Only the labels of the kills are left out: which of them is simpler depends on where in its life it is passed.
    """
    turns = tuple(tuple(list(TOOL_KINDS).index(call) for call in turn.calls) for turn in schedule.turns)
    beside = tuple(
        tuple(_BESIDE.index(word) if word in _BESIDE else -1 for word in turn.beside) for turn in schedule.turns
    )
    options = (STORES.index(schedule.store), not schedule.marks, schedule.over, list(ENDS).index(schedule.end))
    kills = tuple(
        (kill.n, list(LOSSES).index(kill.loss), kill.delay_ms, kill.alone) if isinstance(kill, Kill) else (0, 0, 0, 0)
        for kill in schedule.kills
    )
    return (*schedule.size(), turns, options, beside, kills)


def shrink(schedule: Schedule, fails: Fails, passes: Passes) -> Schedule:
    """A smallest schedule found for which `fails` holds.

    `fails(candidate)` executes a candidate and returns the schedule that really happened if it failed in the same way,
    else None; asked again it remembers. `passes(schedule, place)` are the crash points that the life at `place` passes
    up to its kill, in order.
    """
    schedule = _smaller(schedule, _leaps(schedule), fails) or schedule
    while True:
        schedule = _descend(schedule, fails)
        smaller = _earlier(schedule, fails, passes) or _smaller(schedule, _detours(schedule, passes), fails)
        if smaller is None:
            return schedule
        schedule = smaller


def _descend(schedule: Schedule, fails: Fails) -> Schedule:
    """Take steps for as long as any leads on: each kind of edit once, simplest result first, and then all over again.

    To begin with the simplest after each step would try again and again what has just been found not to fail.
    """
    while True:
        before, tried = schedule, set[object]()
        while smaller := _step(schedule, tried, fails):
            schedule = smaller
        if schedule == before:
            return schedule


def _step(schedule: Schedule, tried: set[object], fails: Fails) -> Schedule | None:
    """The simplest candidate that fails, of those whose edit has not been `tried`; those that are tried are added."""
    for candidate in _sorted(simpler(schedule)):
        edit = _edit(schedule, candidate)
        if edit not in tried:
            tried.add(edit)
            if smaller := _smaller(schedule, [candidate], fails):
                return smaller
    return None


def _edit(schedule: Schedule, other: Schedule) -> object:
    """What is done to the one to get the other, wherever in it: the words that go, and those that come."""
    before, after = (Counter(re.findall(r"[^\s\[\]]+|\[", str(each))) for each in (schedule, other))
    return frozenset((before - after).items()), frozenset((after - before).items())


def _sorted(candidates: Iterable[Schedule]) -> list[Schedule]:
    return sorted(set(candidates), key=lambda candidate: (order(candidate), str(candidate)))


def _smaller(schedule: Schedule, candidates: Iterable[Schedule], fails: Fails) -> Schedule | None:
    """The simplest candidate that fails. What happened may differ from what was planned, and is what counts."""
    for candidate in _sorted(candidates):
        if order(candidate) < order(schedule):
            failed = fails(candidate)
            # Only if what happened is simpler, too: else there would be no end.
            if failed is not None and order(failed) < order(schedule):
                return failed
    return None


def _leaps(schedule: Schedule) -> Iterator[Schedule]:
    """One thing of the script alone: a call, a turn, or what stands beside one; with no kill, and with one of them."""
    calls = [Turn((call,)) for turn in schedule.turns for call in turn.calls]
    beside = [Turn(turn.calls[:1], (word,)) for turn in schedule.turns for word in turn.beside if turn.calls]
    plain = Schedule((), schedule.end)
    kills = [kill for kill in schedule.kills if kill is not None]
    for turns in ((), *((turn,) for turn in (*calls, *beside, *schedule.turns))):
        yield replace(plain, turns=turns)
        yield replace(plain, turns=turns, end="end")
        if turns in [(turn,) for turn in calls]:
            yield from (replace(schedule, turns=turns, end="end", kills=(_first_pass(kill),)) for kill in kills)


def _earlier(schedule: Schedule, fails: Fails, passes: Passes) -> Schedule | None:
    """The schedule with one of its kills at the first crash point of its life at which it still fails."""
    for place, kill in enumerate(schedule.kills):
        if not isinstance(kill, Kill):
            continue
        for point in passes(schedule, place):
            earlier = replace(point, loss=kill.loss)
            if earlier == kill:
                break
            candidate = replace(schedule, kills=(*schedule.kills[:place], earlier, *schedule.kills[place + 1 :]))
            failed = fails(candidate) if order(candidate) <= order(schedule) else None
            if failed is not None and order(failed) <= order(schedule) and failed != schedule:
                return failed
    return None


def _detours(schedule: Schedule, passes: Passes) -> Iterator[Schedule]:
    """Schedules that are simpler by more than one step, none of which need be: a step between may not fail."""
    for place in range(len(schedule.kills)):
        fewer = replace(schedule, kills=schedule.kills[:place] + schedule.kills[place + 1 :])
        for number, turn in enumerate(schedule.turns):
            for at, call in enumerate(turn.calls):
                kinds = list(TOOL_KINDS) if len(schedule.kills) == 1 else []
                for others in ((call, call), *((kind,) for kind in kinds)):
                    calls = (*turn.calls[:at], *others, *turn.calls[at + 1 :])
                    if len(calls) <= CALLS_MAX:
                        yield _with_turns(fewer, number, Turn(calls, turn.beside))
    for place, kill in enumerate(schedule.kills):
        # A smaller loss of power shows the same elsewhere: what a name got through with is lost once it is synced.
        for smaller in _simpler_losses(kill):
            for point in passes(replace(schedule, kills=schedule.kills[:place]), place) if smaller.loss else ():
                moved = replace(point, loss=smaller.loss)
                yield replace(schedule, kills=(*schedule.kills[:place], moved, *schedule.kills[place + 1 :]))
    if schedule.store != STORES[0]:
        yield from _renamed(replace(schedule, store=STORES[0]), passes, 0)
    if schedule.kills:
        yield replace(schedule, kills=(None, None))  # a run that has ended is resumed as well
    for number, turn in enumerate(schedule.turns):
        for at, call in enumerate(turn.calls):
            for kind in _simpler_kinds(call):
                calls = (*turn.calls[:at], kind, *turn.calls[at + 1 :])
                other = _with_turns(schedule, number, Turn(calls, turn.beside))
                yield other
                if kind in SWEPT:
                    yield from _in_another_write(other, passes)
    if schedule.end != "end" or any(turn.beside for turn in schedule.turns):
        # A run that stops for some reason is resumed; so is one that has ended, if that is planned.
        turns = tuple(Turn(turn.calls, tuple(w for w in turn.beside if w not in FIRST_ASKS)) for turn in schedule.turns)
        yield replace(schedule, turns=turns, end="end", kills=(*schedule.kills, None, None))
    if not schedule.marks:
        yield from _killed_elsewhere(schedule, replace(schedule, marks=True), passes)
    for number, turn in enumerate(schedule.turns):
        for at, call in enumerate(turn.calls):
            if TOOL_KINDS[call].ends is not None:
                yield from _killed_instead(schedule, number, at, passes)


def _killed_instead(schedule: Schedule, number: int, at: int, passes: Passes) -> Iterator[Schedule]:
    """The schedule with a kill in place of a call that ends its process: around the effect of another, or anywhere."""
    turn, kills = schedule.turns[number], schedule.kills
    for place in range(len(kills) + 1):
        for kind in _simpler_kinds(turn.calls[at]):
            if kind in SWEPT:
                calls = (*turn.calls[:at], kind, *turn.calls[at + 1 :])
                other = _with_turns(schedule, number, Turn(calls, turn.beside))
                for label, n in product(WORLD_POINTS, range(1, at + 2)):
                    yield replace(other, kills=(*kills[:place], Kill(label, n), *kills[place:]))
        if others := turn.calls[:at] + turn.calls[at + 1 :]:
            without = replace(_with_turns(schedule, number, Turn(others, turn.beside)), kills=kills[:place])
            yield from (
                replace(without, kills=(*kills[:place], point, *kills[place:])) for point in passes(without, place)
            )


def _killed_elsewhere(schedule: Schedule, other: Schedule, passes: Passes) -> Iterator[Schedule]:
    """The other schedule with one kill moved to a crash point that only its life passes."""
    for place, kill in enumerate(schedule.kills):
        if isinstance(kill, Kill):
            before, after = schedule.kills[:place], schedule.kills[place + 1 :]
            known = {point.label for point in passes(replace(schedule, kills=before), place)}
            for point in passes(replace(other, kills=before), place):
                if point.label not in known:
                    yield replace(other, kills=(*before, point, *after))


def _in_another_write(schedule: Schedule, passes: Passes) -> Iterator[Schedule]:
    """The schedule with one kill at its stage of another write: a simpler tool may be spared that which it was in."""
    for place, kill in enumerate(schedule.kills):
        if isinstance(kill, Kill) and (stage := kill.label.partition(".")[2]):
            before, after = schedule.kills[:place], schedule.kills[place + 1 :]
            for point in passes(replace(schedule, kills=before), place):
                if point.label.partition(".")[2] == stage and point.label != kill.label:
                    yield replace(schedule, kills=(*before, replace(point, loss=kill.loss), *after))


def _renamed(schedule: Schedule, passes: Passes, place: int) -> Iterator[Schedule]:
    """The schedule with each kill at any stage of the write that it was in, as this store names them."""
    if place == len(schedule.kills):
        yield schedule
        return
    kill = schedule.kills[place]
    before, after = schedule.kills[:place], schedule.kills[place + 1 :]
    likely: list[Plan] = [kill]
    if isinstance(kill, Kill):
        points = passes(replace(schedule, kills=before), place)
        likely = [replace(point, loss=kill.loss) for point in points if _same_moment(point, kill)] or likely
    for point in likely:
        yield from _renamed(replace(schedule, kills=(*before, point, *after)), passes, place + 1)


def _same_moment(point: Kill, kill: Kill) -> bool:
    return point.n == kill.n and point.label.partition(".")[0] == kill.label.partition(".")[0]


def simpler(schedule: Schedule) -> Iterator[Schedule]:
    """Schedules one step simpler, each also with earlier passes of its kills."""
    for edited in _edits(schedule):
        yield from (replace(edited, kills=kills) for kills in _fewer_passes(edited.kills))
    yield from (replace(schedule, kills=kills) for kills in _fewer_passes(schedule.kills))


def _edits(schedule: Schedule) -> Iterator[Schedule]:
    for place in range(len(schedule.kills)):
        yield replace(schedule, kills=schedule.kills[:place] + schedule.kills[place + 1 :])
        yield replace(schedule, kills=(*schedule.kills[:place], None, *schedule.kills[place + 1 :])).canonical()
        for loss in _simpler_losses(schedule.kills[place]):
            yield replace(schedule, kills=(*schedule.kills[:place], loss, *schedule.kills[place + 1 :]))
    for name, plain in (("store", "json"), ("marks", True), ("over", False), ("end", "end")):
        yield replace(schedule, **{name: plain})  # type: ignore[arg-type]  # one field each
    for place, turn in enumerate(schedule.turns):
        yield _with_turns(schedule, place)
        yield _with_turns(schedule, place, PAUSED)
        for at in range(len(turn.calls)):
            if len(turn.calls) > 1:
                yield _with_turns(schedule, place, Turn(turn.calls[:at] + turn.calls[at + 1 :], turn.beside))
            for simpler_kind in (kind for kind in _simpler_kinds(turn.calls[at]) if kind in SWEPT):
                calls = (*turn.calls[:at], simpler_kind, *turn.calls[at + 1 :])
                yield _with_turns(schedule, place, Turn(calls, turn.beside))
        if turn.calls and place + 1 < len(schedule.turns):
            after = schedule.turns[place + 1]
            if after.calls and len(turn.calls) + len(after.calls) <= CALLS_MAX:
                both = Turn(turn.calls + after.calls, tuple(dict.fromkeys(turn.beside + after.beside)))
                yield replace(schedule, turns=(*schedule.turns[:place], both, *schedule.turns[place + 2 :]))
        for at in range(len(turn.beside)):
            if turn.calls:
                for others in ((), *((word,) for word in _simpler_words(turn.beside[at]) if word not in turn.beside)):
                    beside = (*turn.beside[:at], *others, *turn.beside[at + 1 :])
                    yield _with_turns(schedule, place, Turn(turn.calls, beside))


def _with_turns(schedule: Schedule, place: int, *turns: Turn) -> Schedule:
    return replace(schedule, turns=schedule.turns[:place] + turns + schedule.turns[place + 1 :])


def _simpler_kinds(kind: str) -> list[str]:
    kinds = list(TOOL_KINDS)
    return kinds[: kinds.index(kind)]


def _simpler_words(word: str) -> list[str]:
    words = list(BLOCKS if word in BLOCKS else FIRST_ASKS)
    return words[: words.index(word)]


def _first_pass(kill: Plan) -> Plan:
    return replace(kill, n=1) if isinstance(kill, Kill) else kill


def _fewer_passes(kills: tuple[Plan, ...]) -> Iterator[tuple[Plan, ...]]:
    """The kills as they are, all at their first passes, and each alone at any pass before its own."""
    yield kills
    yield tuple(_first_pass(kill) for kill in kills)
    for place, kill in enumerate(kills):
        if isinstance(kill, Kill):
            yield from ((*kills[:place], replace(kill, n=n), *kills[place + 1 :]) for n in range(1, kill.n))


def _simpler_losses(kill: Plan) -> Iterator[Kill]:
    """A kill that takes less along, at best nothing but the process."""
    losses = list(LOSSES)
    return (
        (replace(kill, loss=loss) for loss in losses[: losses.index(kill.loss)]) if isinstance(kill, Kill) else iter(())
    )
