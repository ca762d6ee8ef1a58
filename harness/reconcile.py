"""Reconcile: what to do with a call that has no result yet. The heart of a resume, and a pure function.

    | ledger says          | effect class when the call was made | then                                          |
    |----------------------|-------------------------------------|-----------------------------------------------|
    | finished             | any                                 | reuse the outcome, do not run                 |
    | -                    | none (no such tool then)            | error: there is no such tool                  |
    | -                    | READ_ONLY                           | run                                           |
    | cannot have begun    | SIDE_EFFECT, IDEMPOTENT             | run, for the first time                       |
    | may have begun       | IDEMPOTENT                          | run again under the same key                  |
    | may have begun       | SIDE_EFFECT with verify             | ask it                                        |
    | may have begun       | SIDE_EFFECT                         | the state is unknown: say so, never run again |

"May have begun" is a started mark, or, for a run without started marks, any call that an earlier life left pending.
A tool that is gone by now turns the rows that would run it into "no longer available", or "unknown" where it may have
changed the world. A call of this very life cannot have begun, so an ordinary turn goes through the same table.

It knows nothing of stores, tools' functions, or the task, and doing it twice is doing it once.
"""

from __future__ import annotations

from enum import StrEnum

from harness.checkpoint import Call
from harness.ledger import Entry
from harness.tool import Effect, Tool


class Move(StrEnum):
    """What to do with a call."""

    REUSE = "reuse"
    RUN = "run"
    RUN_AGAIN = "run_again"
    ASK_VERIFY = "ask_verify"
    SAY_UNKNOWN = "say_unknown"
    SAY_NO_SUCH_TOOL = "say_no_such_tool"
    SAY_GONE = "say_gone"


def reconcile(call: Call, entry: Entry | None, tool: Tool | None, *, left_pending: bool, started_marks: bool) -> Move:
    """The move for one call.

    `entry`: what the ledger knows of it. `tool`: the tool of that name today, None if there is none. `left_pending`:
    an earlier life saved the call as pending. `started_marks`: the protocol of the run.
    """
    if entry is not None and entry.finished:
        return Move.REUSE
    if call.effect is None:
        return Move.SAY_NO_SUCH_TOOL
    may_have_begun = entry is not None or (left_pending and not started_marks)
    if call.effect is Effect.READ_ONLY or not may_have_begun:
        return Move.RUN if tool is not None else Move.SAY_GONE
    if tool is None:
        return Move.SAY_UNKNOWN
    if call.effect is Effect.IDEMPOTENT:
        return Move.RUN_AGAIN
    return Move.ASK_VERIFY if tool.verify is not None else Move.SAY_UNKNOWN
