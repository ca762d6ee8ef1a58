"""What Hypothesis draws: the parts of schedules. The only place where strategies are made.

Only booleans, `sampled_from` and small ranges: Hypothesis takes larger constants from whatever modules happen to be
loaded, and the same seed must draw the same schedules everywhere. The simplest choice stands first.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from crashtests.kinds import BLOCKS, ENDS, FIRST_ASKS, TOOL_KINDS
from crashtests.schedule import CALLS_MAX, PAUSED, Kill, Turn

# How far into a life a kill may be planned, in passes of one label.
PASSES_MAX = 6

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


def kills(labels: Sequence[str]) -> st.SearchStrategy[Kill]:
    """A kill at one of `labels`, at one of its first passes."""
    return st.builds(Kill, st.sampled_from(labels), st.integers(1, PASSES_MAX))
