"""The text of a schedule: it reads back as what it was, says what is wrong with it, stays short, and sorts by size."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings

from crashtests import strategies
from crashtests.bugs import BUGS
from crashtests.kinds import BLOCKS, ENDS, FIRST_ASKS, TOOL_KINDS
from crashtests.regressions import regressions
from crashtests.schedule import (
    ANY,
    HINDRANCES,
    LOSSES,
    PAUSED,
    STORES,
    Hindrance,
    Kill,
    Schedule,
    ScheduleError,
    Turn,
    parse,
)
from harness.crash import crash_points

PLAIN = parse("v1 json marks [pay] end")


@given(schedule=strategies.schedules(STORES, (True, False)))
@settings(max_examples=200, deadline=None, database=None, derandomize=True)
def test_reads_back(schedule: Schedule) -> None:
    """Whatever can be drawn is the same after it was written as a line and read, and so is its canonical form."""
    assert schedule == parse(str(schedule))
    assert schedule.canonical() == parse(str(schedule.canonical()))


def test_every_word_reads_back() -> None:
    """Every store, protocol, end, tool kind, decoration and crash point can be written and read."""
    options = product(STORES, (True, False), (True, False))
    schedules = [replace(PLAIN, store=store, marks=marks, over=over) for store, marks, over in options]
    schedules += [replace(PLAIN, end=end) for end in ENDS]
    schedules += [replace(PLAIN, turns=(Turn((kind,)), PAUSED)) for kind in TOOL_KINDS]
    schedules += [replace(PLAIN, turns=(Turn(("pay",), (word,)),)) for word in (*BLOCKS, *FIRST_ASKS)]
    schedules += [replace(PLAIN, kills=(None, Kill(label, 12))) for s in STORES for label in crash_points(s)]
    schedules += [replace(PLAIN, kills=(None, Hindrance(how))) for how in HINDRANCES]
    schedules += [replace(PLAIN, kills=(Kill(label, 12, loss),)) for loss in LOSSES for label in ("after-tool", ANY)]

    schedules += [replace(PLAIN, kills=(Kill("after-tool", 2, "", 40, alone), None)) for alone in (True, False)]

    assert schedules == [parse(str(schedule)) for schedule in schedules]


def test_what_a_line_says() -> None:
    """The example of the module's docstring is the schedule that it describes."""
    read = parse("v1 json marks [read pay][thinking mail] end > after-tool:2 > before-verify:1")

    assert (Turn(("read", "pay")), Turn(("mail",), ("thinking",))) == read.turns
    assert ("end", "json", True, False) == (read.end, read.store, read.marks, read.over)
    assert (Kill("after-tool", 2), Kill("before-verify")) == read.kills


def test_a_line_that_loses_power() -> None:
    """A kill with `!` behind it is a loss of power, with a word behind that another one."""
    read = parse("v1 json marks [pay] end > after-tool:2 > - > any:7! > save-a.renamed:1!data > any:1!torn")

    assert ["", "!", "!data", "!torn"] == [kill.loss for kill in read.deaths]
    assert [True, True, True, True, True, False] == [read.loses_power_from(place) for place in range(6)]
    assert not replace(read, kills=read.kills[:2]).loses_power_from(0)


def test_a_line_with_a_delay_and_a_host() -> None:
    """`+ms` behind a kill is that much later, and `@host` the host alone; a kill without them is neither."""
    read = parse("v1 json marks [pay] end > after-tool:2+40 > any:7@host > after-tool:1+1@host > after-tool:1")

    assert [40, 0, 1, 0] == [kill.delay_ms for kill in read.deaths]
    assert [False, True, True, False] == [kill.alone for kill in read.deaths]
    assert not read.loses_power_from(0)


def test_spaces_are_of_no_meaning() -> None:
    """A line that was wrapped or indented on its way is still the same schedule."""
    assert PLAIN == parse("  v1 json\n   marks  [pay ]\tend\n")


WRONG = {
    "": "'' is not a schedule; one looks like: v1 json marks [pay] end > after-tool:1",
    "pay": "'pay' is not a schedule",
    "v1 json marks [pay end": "is not a schedule",
    "v1 json marks [pay]": "end '[pay]' is none of: end, silent, sequence, refusal",
    "v1 json marks [pay] end >": "is not a schedule",
    "v1 json marks [pay] end after-tool:1": "is not a schedule",
    "v2 json marks [pay] end": "version 'v2' is none of: v1",
    "v1 yaml marks [pay] end": "store 'yaml' is none of: json, sqlite",
    "v1 json nomarks [pay] end": "protocol 'nomarks' is none of: marks, no-marks",
    "v1 json marks [pay] fin": "end 'fin' is none of: end, silent, sequence, refusal",
    "v1 json marks [pays] end": "call 'pays' is none of: read, put, pay, mail,",
    "v1 json marks [pay thinking] end": "call 'thinking' is none of: read, put,",
    "v1 json marks [pause pay] end": "call 'pause' is none of: read, put,",
    "v1 json marks [] end": "turn [] makes 0 calls; allowed are 1 to 4, or [pause]",
    "v1 json marks [thinking] end": "turn [thinking] makes 0 calls; allowed are 1 to 4",
    "v1 json marks [pay pay pay pay pay] end": "turn [pay pay pay pay pay] makes 5 calls; allowed are 1 to 4",
    "v1 json marks [pay] end > after-tool": "kill 'after-tool' is not label:n, such as after-tool:1, nor ~damaged",
    "v1 json marks [pay] end > - > ~wet": "hindrance 'wet' is none of: damaged, incomplete, foreign, version, held",
    "v1 json marks [pay] end > after-tool!": "kill 'after-tool!' is not label:n, such as after-tool:1, nor ~damaged",
    "v1 json marks [pay] end > after-tool:1!!": "kill 'after-tool:1!!' is not label:n",
    "v1 json marks [pay] end > after-tool:1!all": "loss of power '!all' is none of: !, !data, !torn",
    "v1 json marks [pay] end > after-tool:1+0": "kill 'after-tool:1+0' is not label:n",
    "v1 json marks [pay] end > after-tool:1@home": "kill 'after-tool:1@home' is not label:n",
    "v1 json marks [pay] end > after-tool:1+5!": "kill 'after-tool:1+5!' loses power, which takes everything at once",
    "v1 json marks [pay] end > after-tool:1!data@host": "neither +ms nor @host fits",
    "v1 json marks [pay] end > after-tool:0": "kill 'after-tool:0' is not label:n",
    "v1 json marks [pay] end > after-tool:1234567": "kill 'after-tool:1234567' is not label:n",
}


def test_errors() -> None:
    """What is no schedule is refused with the word that is wrong and with what is allowed in its place."""
    said = {}
    for line in WRONG:
        with pytest.raises(ScheduleError) as error:
            parse(line)
        said[line] = str(error.value)

    assert [] == [(line, said[line]) for line, says in WRONG.items() if says not in said[line]]


def test_nothing_minimal_is_long() -> None:
    """Every schedule that is kept, and the smallest of every planted bug, is a line of under 200 characters."""
    lines = [str(schedule) for schedule in regressions()] + [bug.smallest for bug in BUGS]

    assert [] == [line for line in lines if len(line) >= 200]


def test_canonical() -> None:
    """Lives at the end that are left alone are there anyway; those before a kill are part of the schedule."""
    kill = Kill("after-tool")

    assert (kill,) == replace(PLAIN, kills=(kill, None, None)).canonical().kills
    assert (None, kill) == replace(PLAIN, kills=(None, kill, None)).canonical().kills
    assert () == replace(PLAIN, kills=(None,)).canonical().kills


# Each is larger than the one before it, for one reason each.
BY_SIZE = """
v1 json marks end
v1 json marks [pause] end
v1 json marks [read] end
v1 sqlite marks [read] end
v1 json marks [put] end
v1 json marks [big] end
v1 json marks [read read] end
v1 json marks [pause][pause] end
v1 json marks [read][read] end
v1 json marks end > before-model:1
v1 json marks end > before-model:2
v1 json marks end > - > before-model:2
v1 json marks end > before-model:1!
v1 json marks end > before-model:2!
v1 json marks end > before-model:1!data
v1 json marks end > before-model:1!torn
v1 json marks [read] end > before-model:1
v1 json marks [read] refusal > before-model:1
v1 json no-marks [thinking read] end > before-model:1
v1 json marks [pay] end > before-model:1
v1 json marks [stop] end
v1 json marks end > before-model:1 > before-model:1
v1 json marks [stop] end > before-model:1
"""


def test_size_of_a_kill() -> None:
    """A kill at once is smaller than one of the host alone or at a delay."""
    plain, alone, late, both = (parse(f"{PLAIN} > a:1{how}").size() for how in ("", "@host", "+40", "+40@host"))

    assert plain < alone == late < both


def test_size() -> None:
    """Fewest deaths first, then turns, then calls, then the simplest tools, then the plainest options, then passes."""
    lines = BY_SIZE.strip().splitlines()
    sizes = [parse(line).size() for line in lines]

    assert [] == [line for line, size, next_size in zip(lines, sizes, sizes[1:], strict=False) if size >= next_size]


def test_text_form_needs_no_hypothesis() -> None:
    """A line can be read where neither Hypothesis nor pytest is loaded, as lives do."""
    code = "import sys, crashtests.schedule; print({'hypothesis', 'pytest'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "set()" == done.stdout.strip()
