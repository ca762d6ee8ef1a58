"""How a life ends before the task does: what is kept, what is not run, and what a resume does about it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from crashtests.unit.bodies import asks, body, call, result, says, text
from crashtests.unit.lives import both_stores
from crashtests.unit.scenes import STORES, TASK, Scene
from crashtests.unit.world import DONE_TEXT, WorldModel
from harness import Store
from harness.stop_reasons import PAUSES_MAX

FIRST = asks(call("t1"))
# Each is not taken, for the reason beside it.
NOT_TAKEN = {
    "max_tokens": (body("max_tokens", call("t2")), "cut short: stop_reason 'max_tokens'"),
    "window": (body("model_context_window_exceeded", text("so")), "cut short: stop_reason 'model_context_window_exc"),
    "unknown reason": (body("compaction", call("t2")), "unknown stop reason: stop_reason 'compaction'"),
    "no reason": (body(None, call("t2")), "protocol error: stop_reason is None"),
    "no content": ({"type": "message", "stop_reason": "end_turn"}, "protocol error: content is None"),
    "call without a tool_use stop": (body("end_turn", call("t2")), "protocol error: stop_reason is 'end_turn'"),
    "id seen": (asks(call("t1")), "protocol error: tool_use_id 't1' was used by an earlier turn"),
    "id twice": (asks(call("t2"), call("t2")), "protocol error: tool_use_id 't2' is there twice"),
    "id empty": (asks(call("t2"), call("")), "protocol error: tool_use id ''"),
    "input no object": (asks(call("t2"), call("t3") | {"input": "{}"}), "protocol error: the input of tool_use 't3'"),
    "a string": ("<html>no</html>", "protocol error: the response is a str"),
}
not_taken = pytest.mark.parametrize(("response", "why"), NOT_TAKEN.values(), ids=NOT_TAKEN)


def scene(path: Path, store_class: type[Store], *responses: Any) -> Scene:
    made = Scene(path / "run", store_class, responses)
    made.tools = [made.world.tool()]
    return made


@both_stores
@not_taken
def test_what_is_not_taken_is_kept_beside_the_messages(
    store_class: type[Store], fast_path: Path, response: Any, why: str
) -> None:
    """The life stops with the reason, runs nothing, counts nothing; the response is kept, and a resume asks again."""
    made = scene(fast_path, store_class, FIRST, response)
    ended = made.live()
    left = made.saved
    made.model = WorldModel(made.world, [FIRST, asks(call("t4")), says("done")])
    again = made.live()

    assert ("stopped", 1, 15, ["t1"]) == (ended.status, ended.turns, ended.tokens_used, made.world.of("effect")[:1])
    assert why in ended.reason
    assert ("stopped", {"why": ended.reason, "response": response}) == (left.status, left.stopped)
    assert [result("t1", DONE_TEXT)] == left.messages[-1]["content"]
    assert ("done", 2, 45, ["t1", "t4"]) == (again.status, again.turns, again.tokens_used, made.world.of("effect"))
    assert left.messages == made.messages[:3]
    assert made.saved.stopped is None


@both_stores
def test_a_response_that_json_cannot_hold_is_kept_as_text(store_class: type[Store], fast_path: Path) -> None:
    """A NaN in a response stops the run, and can still be read beside the messages."""
    made = scene(fast_path, store_class, asks(call("t1", mean=float("nan"))))
    ended = made.live()

    assert "protocol error: the content holds a NaN" in ended.reason
    assert made.saved.stopped is not None
    assert "'mean': nan" in made.saved.stopped["response"]


@both_stores
def test_a_run_can_be_stopped_again_and_again(store_class: type[Store], fast_path: Path) -> None:
    """Every resume asks once, and the messages do not grow by what was not taken."""
    made = scene(fast_path, store_class, FIRST, body("max_tokens", call("t2")))
    lives = [made.live() for _ in range(3)]

    assert ["stopped"] * 3 == [ended.status for ended in lives]
    assert (1 + 3, 3) == (len(made.world.of("ask")), len(made.messages))


@both_stores
def test_a_refusal_is_final(store_class: type[Store], fast_path: Path) -> None:
    """A refused run asks nothing ever again, drops what the refused turn held and says so each time."""
    refusal = body("refusal", text("I would"), call("t2"), stop_details={"type": "refusal", "category": "cyber"})
    made = scene(fast_path, store_class, FIRST, refusal)
    ended, again = made.live(), made.live()

    assert ["stopped", "stopped"] == [ended.status, again.status]
    assert "the model refused (category 'cyber')" == ended.reason
    assert "the model refused (category 'cyber'); a resume asks nothing" == again.reason
    assert (2, ["t1"], 3) == (len(made.world.of("ask")), made.world.of("effect"), len(made.messages))
    assert ("refusal", refusal) == (made.saved.status, (made.saved.stopped or {})["response"])


def paused(n: int) -> Any:
    """The n-th response of a server tool's loop that went on for too long."""
    use = {"type": "server_tool_use", "id": f"srvtoolu_{n}", "name": "web_search", "input": {"query": "x"}}
    answer = {"type": "web_search_tool_result", "tool_use_id": f"srvtoolu_{n}", "content": []}
    return body("pause_turn", use, answer)


SEARCH = {"type": "web_search_20260209", "name": "web_search"}


@both_stores
def test_a_paused_turn_is_sent_back_unchanged(store_class: type[Store], fast_path: Path) -> None:
    """The paused turn is saved, and the next request ends with it as it came; it is no turn of ours, but it costs."""
    made = scene(fast_path, store_class, paused(0), asks(call("t1")), says("done"))
    ended = made.live(server_tools=[SEARCH])
    assert isinstance(made.model, WorldModel)

    assert {"role": "assistant", "content": paused(0)["content"]} == made.model.requests[1]["messages"][-1]
    assert made.model.requests[1]["messages"] == made.messages[:2]
    assert ("done", "done", 1, 45) == (ended.status, ended.answer, ended.turns, ended.tokens_used)


@both_stores
def test_what_has_been_saved_is_said(store_class: type[Store], fast_path: Path) -> None:
    """One line for each save in the middle of a run: which point, and the tools that are pending then."""
    made = scene(fast_path, store_class, paused(0), asks(call("t1"), call("t2")), says("done"))
    said: list[str] = []
    made.live(say=said.append)

    assert ["[paused][save A] pending=none", "[turn 1][save A] pending=act,act", "[turn 1][save B]"] == said


@both_stores
def test_pauses_in_a_row_have_a_limit(store_class: type[Store], fast_path: Path) -> None:
    """Ten pauses in a row are sent back, the eleventh stops the run; a resume asks again and can go on."""
    pauses = [paused(n) for n in range(PAUSES_MAX)]
    made = scene(fast_path, store_class, *pauses, paused(10))
    ended = made.live(server_tools=[SEARCH])
    left = made.saved
    stopped_again = made.live()
    made.model = WorldModel(made.world, [*pauses, asks(call("t1")), paused(11), says("done")])
    again = made.live()

    assert ("stopped", "the turn paused more than 10 times in a row") == (ended.status, ended.reason)
    assert ("stopped", 1 + PAUSES_MAX, 15 * PAUSES_MAX) == (left.status, len(left.messages), left.tokens_used)
    assert ended.reason == stopped_again.reason
    # 11 asks, one more, and then: the call, a pause that is the first in a row again, the end.
    assert ("done", ["t1"], 11 + 1 + 3) == (again.status, made.world.of("effect"), len(made.world.of("ask")))
    assert left.messages == made.messages[: 1 + PAUSES_MAX]


@both_stores
def test_a_kill_between_a_pause_and_its_return_loses_nothing(store_class: type[Store], fast_path: Path) -> None:
    """The paused turn is on disk before it is sent back, and the next life sends it."""
    made = scene(fast_path, store_class, paused(0), says("done"))
    made.killed("before-model", 2)
    saved = made.messages
    ended, _ = made.completed()

    assert paused(0)["content"] == saved[-1]["content"]
    assert ("done", 30, 2) == (ended.status, ended.tokens_used, len(made.world.of("ask")))


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": "3"}, {"output_tokens": 4, "server_tool_use": None}])
def test_odd_usage_does_not_end_a_run(fast_path: Path, usage: Any) -> None:
    """What cannot be counted is not counted, and the task goes on."""
    made = scene(fast_path, STORES["json"], FIRST, says("done", usage=usage))
    ended = made.live()

    assert ("done", 15 + (usage or {}).get("output_tokens", 0)) == (ended.status, ended.tokens_used)
    assert TASK == json.loads(os.fsencode(made.store.checkpoint_path.read_text()))["task"]
