"""Reconcile: every combination of what can be known of a call, against a table written out by hand."""

from __future__ import annotations

import itertools

import pytest

from crashtests.unit.test_tool import run
from crashtests.unit.world import SCHEMA
from harness import CANNOT_TELL, Effect, Tool
from harness.checkpoint import Call
from harness.ledger import Entry, Settled, finished, started
from harness.outcome import Outcome
from harness.reconcile import Move, reconcile

# In the last three columns: what to do if the tool is gone by now, is there, or is there with a verify.
TABLE = """
ledger    marks  pending  class        gone          there         verify

finished  yes    left     none         reuse         reuse         reuse
finished  yes    left     read_only    reuse         reuse         reuse
finished  yes    left     idempotent   reuse         reuse         reuse
finished  yes    left     side_effect  reuse         reuse         reuse
finished  yes    new      none         reuse         reuse         reuse
finished  yes    new      read_only    reuse         reuse         reuse
finished  yes    new      idempotent   reuse         reuse         reuse
finished  yes    new      side_effect  reuse         reuse         reuse
finished  no     left     none         reuse         reuse         reuse
finished  no     left     read_only    reuse         reuse         reuse
finished  no     left     idempotent   reuse         reuse         reuse
finished  no     left     side_effect  reuse         reuse         reuse
finished  no     new      none         reuse         reuse         reuse
finished  no     new      read_only    reuse         reuse         reuse
finished  no     new      idempotent   reuse         reuse         reuse
finished  no     new      side_effect  reuse         reuse         reuse

started   yes    left     read_only    say_gone      run           run
started   yes    left     idempotent   say_unknown   run_again     run_again
started   yes    left     side_effect  say_unknown   say_unknown   ask_verify
started   yes    new      read_only    say_gone      run           run
started   yes    new      idempotent   say_unknown   run_again     run_again
started   yes    new      side_effect  say_unknown   say_unknown   ask_verify
started   no     left     read_only    say_gone      run           run
started   no     left     idempotent   say_unknown   run_again     run_again
started   no     left     side_effect  say_unknown   say_unknown   ask_verify
started   no     new      read_only    say_gone      run           run
started   no     new      idempotent   say_unknown   run_again     run_again
started   no     new      side_effect  say_unknown   say_unknown   ask_verify

nothing   yes    left     read_only    say_gone      run           run
nothing   yes    left     idempotent   say_gone      run           run
nothing   yes    left     side_effect  say_gone      run           run
nothing   yes    new      read_only    say_gone      run           run
nothing   yes    new      idempotent   say_gone      run           run
nothing   yes    new      side_effect  say_gone      run           run
nothing   no     left     read_only    say_gone      run           run
nothing   no     left     idempotent   say_unknown   run_again     run_again
nothing   no     left     side_effect  say_unknown   say_unknown   ask_verify
nothing   no     new      read_only    say_gone      run           run
nothing   no     new      idempotent   say_gone      run           run
nothing   no     new      side_effect  say_gone      run           run

started   yes    left     none         say_no_such_tool  say_no_such_tool  say_no_such_tool
started   yes    new      none         say_no_such_tool  say_no_such_tool  say_no_such_tool
started   no     left     none         say_no_such_tool  say_no_such_tool  say_no_such_tool
started   no     new      none         say_no_such_tool  say_no_such_tool  say_no_such_tool
nothing   yes    left     none         say_no_such_tool  say_no_such_tool  say_no_such_tool
nothing   yes    new      none         say_no_such_tool  say_no_such_tool  say_no_such_tool
nothing   no     left     none         say_no_such_tool  say_no_such_tool  say_no_such_tool
nothing   no     new      none         say_no_such_tool  say_no_such_tool  say_no_such_tool
"""
ROWS = [line.split() for line in TABLE.splitlines() if line][1:]
TOOLS = {
    "gone": None,
    "there": Tool("act", "Acts.", SCHEMA, run),
    "verify": Tool("act", "Acts.", SCHEMA, run, verify=lambda arguments, tool_use_id: CANNOT_TELL),
}
# Every case the table answers: (ledger, marks, pending, class, tool) -> move.
CASES = {(*row[:4], tool): Move(move) for row in ROWS for tool, move in zip(TOOLS, row[4:], strict=True)}


def made(effect: str) -> Call:
    return Call("t1", "act", None if effect == "none" else Effect(effect), {})


def known(ledger: str, call: Call) -> Entry | None:
    return {
        "nothing": None,
        "started": started(call),
        "finished": finished(call, Outcome("ok"), Settled.RUN),
    }[ledger]


def test_the_table_has_a_row_for_every_case() -> None:
    """Nothing is left out and nothing is said twice."""
    ledgers, effects = ["nothing", "started", "finished"], ["none", *Effect]
    cases = set(itertools.product(ledgers, ["yes", "no"], ["left", "new"], effects, TOOLS))

    assert cases == CASES.keys()
    assert len(cases) == 3 * len(ROWS)


@pytest.mark.parametrize("marks", ["yes", "no"])
@pytest.mark.parametrize("ledger", ["nothing", "started", "finished"])
def test_each_call_gets_the_move_of_its_row(ledger: str, marks: str) -> None:
    """What reconcile decides is what the table says, in every case."""
    decided = {}
    for case in CASES:
        if case[:2] == (ledger, marks):
            call = made(case[3])
            decided[case] = reconcile(
                call, known(ledger, call), TOOLS[case[4]], left_pending=case[2] == "left", started_marks=marks == "yes"
            )

    assert {case: move for case, move in CASES.items() if case in decided} == decided
    assert decided


@pytest.mark.parametrize("marks", [True, False])
@pytest.mark.parametrize("tool", TOOLS)
def test_doing_it_twice_is_doing_it_once(tool: str, marks: bool) -> None:
    """Once a call is settled, whatever the move was, every later resume reuses what was settled."""
    for effect, settled, left in itertools.product(["none", *Effect], Settled, [True, False]):
        call = made(effect)
        entry = finished(call, Outcome("ok", is_error=settled is Settled.UNKNOWN), settled)

        assert Move.REUSE is reconcile(call, entry, TOOLS[tool], left_pending=left, started_marks=marks)
