"""What Hypothesis draws: the parts of schedules. The only place where strategies are made.

Only booleans, `sampled_from` and small ranges: Hypothesis takes larger constants from whatever modules happen to be
loaded, and the same seed must draw the same schedules everywhere. The simplest choice stands first.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from crashtests.kinds import BLOCKS, ENDS, FIRST_ASKS, TOOL_KINDS
from crashtests.schedule import ANY, CALLS_MAX, PAUSED, Kill, Turn

calls = st.lists(st.sampled_from(list(TOOL_KINDS)), min_size=1, max_size=CALLS_MAX).map(tuple)
# Most turns are plain ones; one in four has something beside its calls.
beside = st.one_of(
    st.just(()),
    st.just(()),
    st.just(()),
    st.lists(st.sampled_from([*BLOCKS, *FIRST_ASKS]), min_size=1, max_size=3, unique=True).map(tuple),
)
turns = st.one_of(
    st.builds(Turn, calls, beside),
    st.builds(Turn, calls, beside),
    st.builds(Turn, calls, beside),
    st.just(PAUSED),
)
ends = st.sampled_from(list(ENDS))


# Where in a life to die, counted over all crash points; a life of several turns passes a hundred and more.
kills = st.one_of(
    st.just(None), *[st.builds(Kill, st.just(ANY), st.integers(1, most)) for most in (20, 40, 60, 80, 120)]
)


def options(stores: Sequence[str], protocols: Sequence[bool]) -> st.SearchStrategy[tuple[str, bool, bool]]:
    """A store, a protocol, and, seldom, a start over an earlier run."""
    return st.tuples(st.sampled_from(stores), st.sampled_from(protocols), st.sampled_from([False] * 7 + [True]))
