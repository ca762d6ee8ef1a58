"""Settling a call: from a pending `tool_use` to its outcome, and from its outcome to the ledger.

There is one path. An ordinary turn and a resume settle their calls with the same code; they differ in what the ledger
says. Execute first, record after: an outcome is recorded only once it is real. The started mark comes before the tool
runs, and if it cannot be made durable the tool is not run.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping

from harness import ledger as ledger_module
from harness import outcome as outcome_module
from harness.checkpoint import Call
from harness.crash import crash_point
from harness.errors import WriteFailed
from harness.ledger import Ledger, Settled
from harness.outcome import Outcome
from harness.reconcile import Move, reconcile
from harness.store import Store
from harness.tool import CANNOT_TELL, NOT_DONE, Done, Effect, Tool, Verdict, running

_SAYS = {
    Move.REUSE: "ledger hit: reusing the outcome, not running it again",
    Move.RUN: "nothing can have happened: running it",
    Move.RUN_AGAIN: "may have begun: running it again under the same key",
    Move.ASK_VERIFY: "may have begun: asking verify",
    Move.SAY_UNKNOWN: "may have begun: its state is unknown, not running it again",
    Move.SAY_NO_SUCH_TOOL: "there was no such tool: nothing to run",
    Move.SAY_GONE: "the tool is no longer available: not running it",
}

UNKNOWN_TEXT = (
    "State unknown: this call may have begun before its process was killed, and its outcome was not recorded. "
    "It may or may not have taken effect. Verify before repeating it."
)


class Settler:
    """Settles the calls of one life.

    `left_pending`: ids of the calls that an earlier life left pending. `say` gets a line for each of them, `warn` what
    a person should know.
    """

    def __init__(
        self,
        store: Store,
        ledger: Ledger,
        tools: Mapping[str, Tool],
        *,
        started_marks: bool,
        left_pending: Collection[str],
        say: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._tools = tools
        self._started_marks = started_marks
        self._left_pending = left_pending
        self._say = say
        self._warn = warn

    def settle(self, call: Call) -> Outcome:
        """The outcome of `call`, recorded. Raises `WriteFailed` if the started mark could not be made durable."""
        entry, tool = self._ledger.get(call.tool_use_id), self._tools.get(call.name)
        left_pending = call.tool_use_id in self._left_pending
        move = reconcile(call, entry, tool, left_pending=left_pending, started_marks=self._started_marks)
        if left_pending:
            self._say_reconciled(call, _SAYS[move])
        if move is Move.REUSE and entry is not None and entry.outcome is not None:
            return entry.outcome
        if tool is not None and move is Move.ASK_VERIFY:
            return self._ask_verify(call, tool)
        if tool is not None and move in (Move.RUN, Move.RUN_AGAIN):
            return self._run(call, tool)
        return self._record(call, *self._not_run(call, move))

    def _run(self, call: Call, tool: Tool) -> Outcome:
        if self._started_marks and call.effect is not Effect.READ_ONLY:
            self._mark_started(call)
        with running(call.tool_use_id):
            try:
                outcome = outcome_module.returned(tool.run(copy.deepcopy(call.input)))
            except Exception as error:
                outcome = outcome_module.raised(error)
        crash_point("after-tool")
        if outcome.is_error:
            self._warn(
                f"{call.name} ({call.tool_use_id}) failed, and the model is told so: {str(outcome.content)[:200]}"
            )
        return self._record(call, outcome, Settled.RUN)

    def _mark_started(self, call: Call) -> None:
        if self._ledger.get(call.tool_use_id) is not None:
            return  # an earlier life did
        entry = ledger_module.started(call)
        self._ledger.put(entry)
        self._store.record(self._ledger, entry, "started")
        crash_point("after-started-mark")

    def _ask_verify(self, call: Call, tool: Tool) -> Outcome:
        crash_point("before-verify")
        verdict = self._verdict(call, tool)
        crash_point("after-verify")
        if isinstance(verdict, Done):
            self._say_reconciled(call, "verify: it is done, using its outcome")
            outcome = outcome_module.returned(verdict.output, is_error=verdict.is_error)
            return self._record(call, outcome, Settled.VERIFIED)
        if verdict is NOT_DONE:
            self._say_reconciled(call, "verify: it was not done, running it now")
            return self._run(call, tool)
        self._say_reconciled(call, f"verify cannot tell: {_SAYS[Move.SAY_UNKNOWN]}")
        return self._record(call, *self._not_run(call, Move.SAY_UNKNOWN))

    def _verdict(self, call: Call, tool: Tool) -> Done | Verdict:
        try:
            verdict = tool.verify(copy.deepcopy(call.input), call.tool_use_id) if tool.verify else CANNOT_TELL
        except Exception as error:
            self._warn(f"verify of {call.name} raised {error!r}: taken for 'cannot tell'")
            verdict = CANNOT_TELL
        if not isinstance(verdict, (Done, Verdict)):
            self._warn(f"verify of {call.name} returned {verdict!r}, not Done, NOT_DONE or CANNOT_TELL: cannot tell")
            verdict = CANNOT_TELL
        return verdict

    def _not_run(self, call: Call, move: Move) -> tuple[Outcome, Settled]:
        if move is Move.SAY_NO_SUCH_TOOL:
            text = f"There is no tool {call.name!r}; nothing was run. Available: {', '.join(self._tools) or 'none'}."
            return Outcome(text, is_error=True), Settled.NOT_RUN
        if move is Move.SAY_GONE:
            # A read-only call may have run in an earlier life, so this does not say that it was not.
            text = f"The tool {call.name!r} is no longer available, so this call has no result."
            return Outcome(text, is_error=True), Settled.NOT_RUN
        return Outcome(UNKNOWN_TEXT, is_error=True), Settled.UNKNOWN

    def _record(self, call: Call, outcome: Outcome, settled: Settled) -> Outcome:
        """Record what is true already; if the disk will not have it, say so and go on with the truth in memory."""
        entry = ledger_module.finished(call, outcome, settled)
        self._ledger.put(entry)
        try:
            self._store.record(self._ledger, entry, "effect")
        except WriteFailed as error:
            told = "if this process dies before its results are saved, a resume will say that the state is unknown"
            self._warn(f"the outcome of {call.name} ({call.tool_use_id}) could not be recorded: {error}; {told}")
        else:
            crash_point("after-effect-write")
        return outcome

    def _say_reconciled(self, call: Call, text: str) -> None:
        self._say(f"[resume][reconcile] tool_use_id={call.tool_use_id} name={call.name} {text}")
