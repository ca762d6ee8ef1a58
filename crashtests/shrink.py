"""Shrinking: from a failing schedule to a smallest one that breaks the same guarantee. It knows what a schedule is.

Greedy descent: of all schedules one step simpler, the first that still fails is taken, until none does. "Simpler" is
`Schedule.size`: fewest kills, then turns, then calls, then simplest tools. Since an edit of the script moves the passes
of a crash point, the n of each kill is tried lower as well. Results are remembered (campaign.py), so it costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from crashtests.kinds import TOOL_KINDS
from crashtests.schedule import Kill, Schedule, Turn


def shrink(schedule: Schedule, fails: Callable[[Schedule], Schedule | None]) -> Schedule:
    """A smallest schedule found for which `fails` holds.

    `fails(candidate)` executes a candidate and returns the schedule that really happened if it failed in the same way,
    else None.
    """
    smallest = schedule
    while True:
        for candidate in sorted(set(simpler(smallest)), key=Schedule.size):
            failed = fails(candidate) if candidate.size() < smallest.size() else None
            # What happened may differ from what was planned, and only counts if it is simpler, too: else no end.
            if failed is not None and failed.size() < smallest.size():
                smallest = failed
                break
        else:
            return smallest


def simpler(schedule: Schedule) -> Iterator[Schedule]:
    """Schedules one step simpler, each also with earlier passes of its kills."""
    for edited in _edits(schedule):
        yield from (replace(edited, kills=kills) for kills in _earlier(edited.kills))
    yield from (replace(schedule, kills=kills) for kills in _earlier(schedule.kills))


def _edits(schedule: Schedule) -> Iterator[Schedule]:
    for place in range(len(schedule.kills)):
        yield replace(schedule, kills=schedule.kills[:place] + schedule.kills[place + 1 :])
    for name, plain in (("store", "json"), ("marks", True), ("over", False), ("end", "end")):
        yield replace(schedule, **{name: plain})  # type: ignore[arg-type]  # one field each
    for place, turn in enumerate(schedule.turns):
        yield _with_turns(schedule, place)
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
    order = list(TOOL_KINDS)
    return order[: order.index(kind)]


def _earlier(kills: tuple[Kill | None, ...]) -> Iterator[tuple[Kill | None, ...]]:
    """The kills as they are, all at their first passes, and each alone at any pass before its own."""
    yield kills
    yield tuple(kill and Kill(kill.label) for kill in kills)
    for place, kill in enumerate(kills):
        for n in range(1, kill.n if kill else 1):
            yield (*kills[:place], kill and Kill(kill.label, n), *kills[place + 1 :])
