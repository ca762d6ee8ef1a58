"""Shrinking: from a failing schedule to a smallest one that breaks the same guarantee. It knows what a schedule is.

Greedy descent: of all schedules one step simpler, the first that still fails is taken, until none does. "Simpler" is
`order`: fewest kills, then turns, then calls, then simplest tools. Since an edit of the script moves the passes of a
crash point, the n of each kill is tried lower as well. Where no step leads on, detours do: one kill less in exchange
for another kind of call or for one call more, and the plain store, whose crash points bear other names. At the end
each kill is moved to the earliest crash point of its life that will do, so that of many schedules of one size it is
always the same that remains. Results are remembered (campaign.py), so it costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from crashtests.kinds import BLOCKS, ENDS, FIRST_ASKS, TOOL_KINDS
from crashtests.schedule import CALLS_MAX, LOSSES, PAUSED, STORES, Kill, Schedule, Turn

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
    kills = tuple((kill.n, list(LOSSES).index(kill.loss)) if kill else (0, 0) for kill in schedule.kills)
    return (*schedule.size(), turns, options, beside, kills)


def shrink(schedule: Schedule, fails: Fails, passes: Passes) -> Schedule:
    """A smallest schedule found for which `fails` holds.

    `fails(candidate)` executes a candidate and returns the schedule that really happened if it failed in the same way,
    else None. `passes(schedule, place)` are the crash points that the life at `place` passes up to its kill, in order.
    """
    while True:
        smaller = (
            _smaller(schedule, simpler(schedule), fails)
            or _smaller(schedule, _detours(schedule, passes), fails)
            or _earlier(schedule, fails, passes)
        )
        if smaller is None:
            return schedule
        schedule = smaller


def _smaller(schedule: Schedule, candidates: Iterable[Schedule], fails: Fails) -> Schedule | None:
    """The simplest candidate that fails. What happened may differ from what was planned, and is what counts."""
    for candidate in sorted(set(candidates), key=lambda candidate: (order(candidate), str(candidate))):
        if order(candidate) < order(schedule):
            failed = fails(candidate)
            # Only if what happened is simpler, too: else there would be no end.
            if failed is not None and order(failed) < order(schedule):
                return failed
    return None


def _earlier(schedule: Schedule, fails: Fails, passes: Passes) -> Schedule | None:
    """The schedule with one of its kills at the first crash point of its life at which it still fails."""
    for place, kill in enumerate(schedule.kills):
        if kill is None:
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
                for others in ((call, call), *((kind,) for kind in TOOL_KINDS)):
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


def _renamed(schedule: Schedule, passes: Passes, place: int) -> Iterator[Schedule]:
    """The schedule with each kill at any stage of the write that it was in, as this store names them."""
    if place == len(schedule.kills):
        yield schedule
        return
    kill = schedule.kills[place]
    before, after = schedule.kills[:place], schedule.kills[place + 1 :]
    likely: list[Kill | None] = [kill]
    if kill is not None:
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
            for simpler_kind in _simpler_kinds(turn.calls[at]):
                calls = (*turn.calls[:at], simpler_kind, *turn.calls[at + 1 :])
                yield _with_turns(schedule, place, Turn(calls, turn.beside))
        for at in range(len(turn.beside)):
            if turn.calls:
                yield _with_turns(schedule, place, Turn(turn.calls, turn.beside[:at] + turn.beside[at + 1 :]))


def _with_turns(schedule: Schedule, place: int, *turns: Turn) -> Schedule:
    return replace(schedule, turns=schedule.turns[:place] + turns + schedule.turns[place + 1 :])


def _simpler_kinds(kind: str) -> list[str]:
    kinds = list(TOOL_KINDS)
    return kinds[: kinds.index(kind)]


def _simpler_losses(kill: Kill | None) -> Iterator[Kill]:
    """A kill that takes less along, at best nothing but the process."""
    losses = list(LOSSES)
    return (replace(kill, loss=loss) for loss in losses[: losses.index(kill.loss)]) if kill else iter(())


def _fewer_passes(kills: tuple[Kill | None, ...]) -> Iterator[tuple[Kill | None, ...]]:
    """The kills as they are, all at their first passes, and each alone at any pass before its own."""
    yield kills
    yield tuple(kill and replace(kill, n=1) for kill in kills)
    for place, kill in enumerate(kills):
        for n in range(1, kill.n if kill else 1):
            yield (*kills[:place], kill and replace(kill, n=n), *kills[place + 1 :])
