"""What Hypothesis draws: the parts of schedules. The only place where strategies are made.

Only booleans, `sampled_from` and small ranges: Hypothesis takes larger constants from whatever modules happen to be
loaded, and the same seed must draw the same schedules everywhere. The simplest choice stands first.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from hypothesis import strategies as st

from crashtests.kinds import BLOCKS, ENDS, FIRST_ASKS, LIMIT, PAUSE, TOOL_KINDS
from crashtests.schedule import ANY, CALLS_MAX, HINDRANCES, LOSSES, PAUSED, Hindrance, Kill, Plan, Schedule, Turn
from crashtests.subject import Subject


def turns(understood: Set[str]) -> st.SearchStrategy[Turn]:
    """A turn; one in four has something beside its calls, if the subject understands it, or is a paused one."""
    kinds = [kind for kind in TOOL_KINDS if kind in understood]
    calls = st.lists(st.sampled_from(kinds), min_size=1, max_size=CALLS_MAX).map(tuple)
    words = [word for word in (*BLOCKS, *FIRST_ASKS) if word in understood]
    beside = st.lists(st.sampled_from(words), min_size=1, max_size=3, unique=True).map(tuple) if words else st.just(())
    plain = st.builds(Turn, calls, st.just(()))
    paused = [st.just(PAUSED)] if PAUSE in understood else []
    return st.one_of(plain, plain, plain, plain, st.builds(Turn, calls, beside), *paused)


def ends(*, limits_turns: bool) -> st.SearchStrategy[str]:
    """How the script ends."""
    return st.sampled_from([end for end in ENDS if end != LIMIT or limits_turns])


# What a kill takes along: one in four is a loss of power.
_losses = st.sampled_from([""] * 9 + list(LOSSES)[1:])


# Where in a life to die, counted over all crash points; a life of several turns passes a hundred and more.
kills = st.one_of(
    st.just(None), *[st.builds(Kill, st.just(ANY), st.integers(1, most), _losses) for most in (20, 40, 60, 80, 120)]
)


def hindrances(promised: Set[str]) -> st.SearchStrategy[Hindrance]:
    """What stands in a life's way, of that which the subject promises to refuse."""
    return st.sampled_from([Hindrance(how) for how in HINDRANCES if how in promised])


def options(stores: Sequence[str], protocols: Sequence[bool]) -> st.SearchStrategy[tuple[str, bool, bool]]:
    """A store, a protocol, and, seldom, a start over an earlier run."""
    return st.tuples(st.sampled_from(stores), st.sampled_from(protocols), st.sampled_from([False] * 7 + [True]))


def schedules(stores: Sequence[str], protocols: Sequence[bool]) -> st.SearchStrategy[Schedule]:
    """Whole schedules, of the sizes that the machine puts together."""

    def whole(chosen: tuple[str, bool, bool], script: list[Turn], end: str, lives: list[Plan]) -> Schedule:
        store, marks, over = chosen
        return Schedule(tuple(script), end, store, marks, over, tuple(lives))

    return st.builds(
        whole,
        options(stores, protocols),
        st.lists(turns(Subject.understands), max_size=4),
        ends(limits_turns=True),
        st.lists(st.one_of(kills, hindrances(set(HINDRANCES))), max_size=4),
    )
