"""The agent loop: ask, save point A, settle the calls, save point B, until the model stops.

    empty ledger and the scene saved once, before the first request                  <after-start-save>
    request -> <before-model> response <after-model>
      point A: messages + the assistant turn, pending = its calls                    <after-save-a>
      settle each call, in order (settle.py)
      all results into one user message; point B: pending = []                       <after-save-b>
    ... until the model stops: final save with the answer                            <after-final-save>

Resuming is entering this loop with calls pending. The loop knows the store's interface, not the stores; it knows the
table of stop reasons (stop_reasons.py) and what a response may be (response.py), not the API.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from harness.checkpoint import Call, Checkpoint, all_tool_uses
from harness.crash import crash_point
from harness.errors import StateMissing, StateMode, StopError, UsageError
from harness.ledger import Ledger
from harness.model import Model
from harness.outcome import tool_result
from harness.response import Reading, keepable, read_response
from harness.settle import Settler
from harness.stop_reasons import PAUSES_MAX, Move
from harness.store import Store
from harness.tool import Tool, tools_by_name

TURNS_MAX = 50
# Above 21,333 the SDK refuses a request that is not streamed.
MAX_TOKENS = 16_000

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Result:
    """How a life ended. `reason` says why a run stopped before its end; `answer` is the text of a finished one.

    `turns`: turns begun. `tokens_used`: all tokens of the responses that were saved. `unknowns`: ids of the calls
    whose state nobody knows (the model was told so).
    """

    status: Literal["done", "stopped"]
    reason: str
    answer: str | None
    turns: int
    tokens_used: int
    run_id: str
    unknowns: tuple[str, ...]


def _silent(line: str) -> None:
    """Say nothing."""


def _to_stderr(line: str) -> None:
    print(f"warning: {line}", file=sys.stderr)


def run_agent(
    model: Model,
    task: str | None,
    tools: Sequence[Tool],
    store: Store,
    *,
    resume: bool | Literal["or-start"] = False,
    system: str | None = None,
    server_tools: Sequence[dict[str, Any]] = (),
    turns_max: int | None = None,
    max_tokens: int = MAX_TOKENS,
    started_marks: bool | None = None,
    say: Say = _silent,
    warn: Say = _to_stderr,
) -> Result:
    """Run `task` to its end, or go on with the run that `store` holds.

    `resume`: True goes on; False starts, setting aside what is there; "or-start" goes on if a run is there, and needs
    the task in case there is none. A run
    keeps its task, model name, system prompt and started-marks protocol: on resume they may be left out, or be the
    same. `server_tools`: definitions of tools that the API runs itself, such as web search; a resume does not look at
    them. `turns_max` (default 50) is checked before each request; a resume may change it. `max_tokens` is sent with
    each request of this life. `say` gets a line of progress at a time, `warn` what a person should know.

    Returns a `Result` for "done" and for every stop once the run is on disk. Raises `UsageError` and `StateRefused`,
    with nothing on disk changed, `WriteFailed` if the state could not be made or opened (nothing was asked or run), and
    lets `BaseException` from tools through: the state on disk is then as after a kill.
    """
    by_name = tools_by_name(tools)
    if turns_max is not None and turns_max < 1:
        raise UsageError(f"turns_max={turns_max!r} must be at least 1")
    definitions = [tool.definition for tool in by_name.values()] + [dict(tool) for tool in server_tools]
    fresh = None if resume is True else _new_scene(model, task, definitions, system, turns_max, started_marks)
    with store.owned(create=resume is not True):
        loaded = _load(store, task, system, started_marks, missing_ok=fresh is not None) if resume else None
        if loaded is not None:
            scene, ledger = loaded
            scene.turns_max = turns_max or scene.turns_max
            say(f"[resume] turn={scene.turns} pending={_names(scene.pending)}")
            _warn_of_missing_tools(scene, by_name, warn)
        elif fresh is not None:
            scene, ledger = fresh, Ledger(fresh.run_id)
            if aside := store.start(scene):
                say(f"[start] an earlier run was set aside in {aside}")
            crash_point("after-start-save")
        left_pending = frozenset(call.tool_use_id for call in scene.pending)
        marks = scene.started_marks
        settler = Settler(store, ledger, by_name, started_marks=marks, left_pending=left_pending, say=say, warn=warn)
        return _Life(model, by_name, store, scene, ledger, settler, max_tokens, say).run()


def _new_scene(
    model: Model,
    task: str | None,
    definitions: list[dict[str, Any]],
    system: str | None,
    turns_max: int | None,
    started_marks: bool | None,
) -> Checkpoint:
    """The scene before the first request. Raises `UsageError` for a task or system prompt the API would refuse."""
    for name, text in (("task", task), ("system", system), ("model name", model.name)):
        if name == "system" and text is None:
            continue
        if not isinstance(text, str) or not text.strip():
            raise UsageError(f"{name}={text!r}: a text that is not blank is needed (rules B9, C3)")
        try:
            text.encode()
        except UnicodeEncodeError as cause:
            raise UsageError(f"{name}={text!r} holds a lone surrogate, which cannot be sent (rule A9)") from cause
    prefix: dict[str, Any] = {"model": model.name}
    if system is not None:
        prefix["system"] = system
    if definitions:
        prefix["tools"] = definitions
    return Checkpoint(
        run_id=uuid.uuid4().hex,
        task=str(task),
        prefix=prefix,
        started_marks=started_marks is not False,
        turns_max=turns_max or TURNS_MAX,
        messages=[{"role": "user", "content": task}],
    )


def _load(
    store: Store, task: str | None, system: str | None, started_marks: bool | None, *, missing_ok: bool
) -> tuple[Checkpoint, Ledger] | None:
    """What the life before left, None if nothing is there and that is `missing_ok`.

    Raises `UsageError` or `StateMode` for one who asks for another run than it is.
    """
    try:
        scene, ledger = store.load()
    except StateMissing:
        if missing_ok:
            return None
        raise
    crash_point("after-load")
    for name, asked, kept in (("task", task, scene.task), ("system", system, scene.prefix.get("system"))):
        if asked is not None and asked != kept:
            raise UsageError(f"{name}={asked!r}: the run to resume has {name} {kept!r}; leave it out, or start afresh")
    if started_marks is not None and started_marks != scene.started_marks:
        problem = f"the run was started {'with' if scene.started_marks else 'without'} started marks"
        raise StateMode(store.checkpoint_path, problem, "resume it the way it was started, or start afresh")
    return scene, ledger


def _warn_of_missing_tools(scene: Checkpoint, tools: dict[str, Tool], warn: Say) -> None:
    missing = [name for name in tool_names(scene) if name not in tools]
    if missing and scene.status in ("running", "stopped"):
        warn(f"this run was started with tools that are not here now: {', '.join(missing)}")


def tool_names(scene: Checkpoint) -> list[str]:
    """Names of the tools that the run was started with, but for those that the API runs itself."""
    return [str(tool.get("name")) for tool in scene.prefix.get("tools", []) if "input_schema" in tool]


def _names(calls: Sequence[Call]) -> str:
    return ",".join(call.name for call in calls) or "none"


class _Life:
    """One pass through the loop, from start or resume to its end."""

    def __init__(
        self,
        model: Model,
        tools: dict[str, Tool],
        store: Store,
        scene: Checkpoint,
        ledger: Ledger,
        settler: Settler,
        max_tokens: int,
        say: Say,
    ) -> None:
        self._model = model
        self._tools = tools
        self._store = store
        self._scene = scene
        self._ledger = ledger
        self._settler = settler
        self._max_tokens = max_tokens
        self._say = say
        self._seen_ids = {block["id"] for block in all_tool_uses(scene.messages)}
        self._saved: dict[str, Any] = {}

    def run(self) -> Result:
        scene = self._scene
        if scene.status == "done":
            return self._result("done")
        if scene.status == "refusal":
            return self._result("stopped", f"{(scene.stopped or {}).get('why')}; a resume asks nothing")
        try:
            return self._turns()
        except StopError as error:
            # A response that could not be saved is lost, and what it counted does not count.
            return replace(self._result("stopped", str(error)), **self._saved)

    def _turns(self) -> Result:
        scene = self._scene
        while True:
            self._saved = {"turns": scene.turns, "tokens_used": scene.tokens_used, "answer": scene.answer}
            if scene.pending:
                self._settle_turn()
            if scene.turns >= scene.turns_max:
                reason = f"the limit of {scene.turns_max} turns is reached; a resume may raise turns_max"
                return self._result("stopped", reason)
            if result := self._take(self._ask()):
                return result

    def _ask(self) -> Any:
        # The messages themselves, not a copy: the cost of a turn must not grow with the conversation.
        request = {**self._scene.prefix, "max_tokens": self._max_tokens, "messages": self._scene.messages}
        crash_point("before-model")
        response = self._model.ask(request)
        crash_point("after-model")
        return response

    def _take(self, response: Any) -> Result | None:
        """Save what the response means; a result if it ends this life."""
        reading = read_response(response, self._seen_ids)
        if reading.move is Move.SEND_BACK and self._pauses() >= PAUSES_MAX:
            reading = replace(reading, move=Move.STOP, why=f"the turn paused more than {PAUSES_MAX} times in a row")
        if reading.move in (Move.STOP, Move.REFUSAL):
            return self._stop(reading, response)
        scene = self._scene
        if reading.content:
            scene.messages.append({"role": "assistant", "content": reading.content})
        scene.tokens_used += reading.tokens
        scene.status, scene.stopped = "running", None
        if reading.move is Move.FINISH:
            return self._finish(reading.answer)
        self._save_a(reading)
        return None

    def _save_a(self, reading: Reading) -> None:
        scene = self._scene
        scene.pending = [self._call(block) for block in reading.calls]
        scene.turns += bool(scene.pending)
        self._seen_ids.update(call.tool_use_id for call in scene.pending)
        self._store.save(scene, "save-a")
        crash_point("after-save-a")
        turn = f"[turn {scene.turns}]" if scene.pending else "[paused]"
        self._say(f"{turn}[save A] pending={_names(scene.pending)}")

    def _call(self, block: dict[str, Any]) -> Call:
        tool = self._tools.get(block["name"])
        return Call(block["id"], block["name"], tool.effect if tool else None, block["input"])

    def _settle_turn(self) -> None:
        """Settle every pending call, put all results into one user message (rule D18), save point B."""
        scene = self._scene
        results = [tool_result(call.tool_use_id, self._settler.settle(call)) for call in scene.pending]
        scene.messages.append({"role": "user", "content": results})
        scene.pending = []
        self._store.save(scene, "save-b")
        crash_point("after-save-b")
        self._say(f"[turn {scene.turns}][save B]")

    def _pauses(self) -> int:
        """How many paused turns in a row the conversation ends with."""
        messages = self._scene.messages
        return next((n for n, m in enumerate(reversed(messages)) if m["role"] != "assistant"), len(messages))

    def _stop(self, reading: Reading, response: Any) -> Result:
        scene = self._scene
        scene.status = "refusal" if reading.move is Move.REFUSAL else "stopped"
        scene.stopped = {"why": reading.why, "response": keepable(response)}
        self._store.save(scene, "stop")
        crash_point("after-stop-save")
        return self._result("stopped", reading.why)

    def _finish(self, answer: str) -> Result:
        scene = self._scene
        scene.status, scene.answer = "done", answer
        self._store.save(scene, "final")
        crash_point("after-final-save")
        return self._result("done")

    def _result(self, status: Literal["done", "stopped"], reason: str = "") -> Result:
        scene, unknowns = self._scene, tuple(self._ledger.unknowns())
        return Result(status, reason, scene.answer, scene.turns, scene.tokens_used, scene.run_id, unknowns)
