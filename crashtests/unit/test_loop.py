"""The loop, turn by turn: what is run, what is saved, what is sent."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from crashtests.unit.bodies import asks, body, call, result, says, text
from crashtests.unit.lives import both_stores
from crashtests.unit.scenes import TASK, Scene
from crashtests.unit.world import DONE_TEXT, SCHEMA, WorldModel
from harness import Done, JsonStore, ModelFailed, Store, Tool, UsageError
from harness.ledger import Settled
from harness.settle import UNKNOWN_TEXT

ASKED = {"role": "user", "content": TASK}


def scene(path: Path, store_class: type[Store], *responses: Any, **options: Any) -> Scene:
    """A run with one tool, `act`."""
    made = Scene(path / "run", store_class, responses, **options)
    made.tools = [made.world.tool()]
    return made


def sent(made: Scene) -> list[dict[str, Any]]:
    assert isinstance(made.model, WorldModel)
    return made.model.requests


@both_stores
def test_a_task_without_tools_is_one_question(store_class: type[Store], fast_path: Path) -> None:
    """The answer is the text of the closing response, which is saved too."""
    made = scene(fast_path, store_class, says("hello"))
    ended = made.live()

    assert ("done", "", "hello", 0, 15, ()) == (
        *(ended.status, ended.reason, ended.answer, ended.turns, ended.tokens_used, ended.unknowns),
    )
    assert [ASKED, {"role": "assistant", "content": [text("hello")]}] == made.messages


@both_stores
def test_calls_of_a_turn_run_in_order_and_are_answered_together(store_class: type[Store], fast_path: Path) -> None:
    """Every call of a turn runs, in the order asked for, and all results stand in one user message."""
    calls = [call("t1"), call("t2", "other"), call("t3")]
    made = scene(fast_path, store_class, asks(*calls), asks(call("t4")), says("done"))
    made.tools.append(made.world.tool("other"))
    ended = made.live()

    assert ["t1", "t2", "t3", "t4"] == made.world.of("effect")
    assert [
        ASKED,
        {"role": "assistant", "content": calls},
        {"role": "user", "content": [result(f"t{n}", DONE_TEXT) for n in (1, 2, 3)]},
        {"role": "assistant", "content": [call("t4")]},
        {"role": "user", "content": [result("t4", DONE_TEXT)]},
        {"role": "assistant", "content": [text("done")]},
    ] == made.messages
    assert (2, 45) == (ended.turns, ended.tokens_used)


@both_stores
def test_an_unknown_tool_is_an_error_that_names_the_others(store_class: type[Store], fast_path: Path) -> None:
    """A tool that does not exist is answered, recorded as not run, and the task goes on."""
    made = scene(fast_path, store_class, asks(call("t1", "atc"), call("t2")), says("done"))
    ended = made.live()
    answer = made.results()[0]

    assert (True, "done", ["t2"]) == (answer["is_error"], ended.status, made.world.of("effect"))
    assert "no tool 'atc'" in answer["content"]
    assert "Available: act." in answer["content"]
    assert [Settled.NOT_RUN, Settled.RUN] == [e.settled for e in made.store.read()[1].entries.values()]


@both_stores
@pytest.mark.parametrize("effects", [0, 1], ids=["before its effect", "after its effect"])
def test_a_tool_that_raises_has_an_outcome(store_class: type[Store], fast_path: Path, effects: int) -> None:
    """An exception is what the call came to: recorded, told to the model, and never a reason to run it again."""
    made = scene(fast_path, store_class, asks(call("t1"), call("t2")), says("done"))
    act = made.world.tool("other")

    def run(arguments: dict[str, Any]) -> str:
        if effects:
            act.run(arguments)
        raise OSError("no route to host")

    made.tools.append(Tool("raises", "Raises.", SCHEMA, run))
    made.model = WorldModel(made.world, [asks(call("t1", "raises"), call("t2")), says("done")])
    made.live()

    assert ["t1", "t2"][1 - effects :] == made.world.of("effect")
    assert [result("t1", "OSError: no route to host", is_error=True), result("t2", DONE_TEXT)] == made.results()
    assert [Settled.RUN, Settled.RUN] == [e.settled for e in made.store.read()[1].entries.values()]


ODD_BLOCKS = [
    {"type": "thinking", "thinking": "", "signature": "c2lnbmVk"},
    {"type": "redacted_thinking", "data": "ZGF0YQ=="},
    text("let me see"),
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    call("t1", n=10**20, x=1.5, none=None, nested={"é": [True, {}]}),
]


@both_stores
def test_every_block_goes_back_value_for_value(store_class: type[Store], fast_path: Path) -> None:
    """Thinking, redacted and server blocks, nulls and big numbers are saved and sent back exactly as they came."""
    made = scene(fast_path, store_class, asks(*ODD_BLOCKS), says("done"))
    search = {"type": "web_search_20260209", "name": "web_search"}
    made.live(server_tools=[search])
    turn = {"role": "assistant", "content": ODD_BLOCKS}

    assert turn == sent(made)[1]["messages"][1] == made.messages[1]
    assert search in sent(made)[0]["tools"]


class Forgetful(WorldModel):
    """A model of an API that knows more block types than our rules do."""

    def ask(self, request: dict[str, Any]) -> Any:
        known = copy.deepcopy(request)
        for message in known["messages"]:
            if isinstance(message["content"], list):
                message["content"] = [b for b in message["content"] if b["type"] != "from_the_future"]
        response = super().ask(known)
        self.requests[-1] = copy.deepcopy(request)
        return response


@both_stores
def test_blocks_of_a_later_api_go_back_too(store_class: type[Store], fast_path: Path) -> None:
    """A block of a type that nobody knows yet is kept, nulls included, and blank text beside it is left out."""
    future = {"type": "from_the_future", "text": None, "inner": [{"a": None}]}
    made = scene(fast_path, store_class)
    made.model = Forgetful(made.world, [asks(text(""), future, call("t1"), text(" \n")), says("done")])
    made.live()

    assert [future, call("t1")] == sent(made)[1]["messages"][1]["content"] == made.messages[1]["content"]


@both_stores
@pytest.mark.parametrize("blocks", [[], [text("")]], ids=["nothing", "blank"])
def test_an_empty_end_is_an_empty_answer(store_class: type[Store], fast_path: Path, blocks: list[Any]) -> None:
    """A model that ends without a word has finished; an empty turn is never saved, since it could not be sent."""
    made = scene(fast_path, store_class, asks(text("working"), call("t1")), body("end_turn", *blocks))
    ended = made.live()

    assert ("done", "", 30) == (ended.status, ended.answer, ended.tokens_used)
    assert {"role": "user", "content": [result("t1", DONE_TEXT)]} == made.messages[-1]


@both_stores
def test_a_tool_cannot_change_the_history(store_class: type[Store], fast_path: Path) -> None:
    """A tool gets a copy of its input: what the model said stays what it said, and so does its hash."""

    def run(arguments: dict[str, Any]) -> Any:
        arguments["list"].append("changed")
        return arguments

    made = scene(fast_path, store_class, asks(call("t1", list=[])), says("done"))
    made.tools = [Tool("act", "Acts.", SCHEMA, run)]
    made.live()

    assert [call("t1", list=[])] == made.messages[1]["content"]
    assert [result("t1", '{"list": ["changed"]}')] == made.results()


@both_stores
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_passes_through(
    store_class: type[Store], fast_path: Path, error: type[BaseException]
) -> None:
    """Ctrl-C and the like are never a tool's result: they end the life, and a resume finds what a kill leaves."""
    made = scene(fast_path, store_class, asks(call("t1"), call("t2")), says("done"))
    act = made.tools[0]

    def run(arguments: dict[str, Any]) -> str:
        raise error

    made.tools = [Tool("act", "Acts.", SCHEMA, run)]
    with pytest.raises(error):
        made.live()
    pending, entries = made.saved.pending, made.store.read()[1].entries
    made.tools = [act]
    ended = made.live()

    assert ["t1", "t2"] == [c.tool_use_id for c in pending]
    assert {"t1": None} == {key: entry.outcome for key, entry in entries.items()}
    assert [UNKNOWN_TEXT, DONE_TEXT] == made.contents()
    assert ("done", ("t1",)) == (ended.status, ended.unknowns)


@both_stores
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_is_no_exception_is_no_verdict(
    store_class: type[Store], fast_path: Path, error: type[BaseException]
) -> None:
    """Ctrl-C while verify is asked ends the life and settles nothing: the next one asks again, and hears."""

    def interrupted(*arguments: Any) -> Any:
        raise error

    made = scene(fast_path, store_class, asks(call("t1")), says("done"))
    for verify in (None, interrupted):
        made.tools = [Tool("act", "Acts.", SCHEMA, interrupted, verify=verify)]
        with pytest.raises(error):
            made.live()
    made.tools = [Tool("act", "Acts.", SCHEMA, interrupted, verify=lambda input, key: Done("found"))]
    ended = made.live()

    assert ["found"] == made.contents()
    assert ("done", ()) == (ended.status, ended.unknowns)


class Down:
    """A model whose API is down."""

    name = "scripted"

    def ask(self, request: dict[str, Any]) -> Any:
        raise ModelFailed("the API answered 529: overloaded")


@both_stores
@pytest.mark.parametrize("answered", [0, 1], ids=["first request", "second request"])
def test_a_model_that_fails_leaves_the_state_as_it_was(
    store_class: type[Store], fast_path: Path, answered: int
) -> None:
    """The life stops and says why; nothing of the exchange is saved, and a resume asks again."""
    script = [asks(call("t1")), says("done")]
    made = scene(fast_path, store_class, *script)
    up = made.model
    made.model = Down() if answered == 0 else WorldModel(made.world, script[:1])
    ended = made.live()
    left = made.saved
    made.model = up
    again = made.live()

    assert ("stopped", "running", answered, 15 * answered) == (ended.status, left.status, left.turns, left.tokens_used)
    assert ("529" if answered == 0 else "the script ends") in ended.reason
    assert 1 + 2 * answered == len(left.messages)
    assert ("done", 30, ["t1"]) == (again.status, again.tokens_used, made.world.of("effect"))


@both_stores
def test_a_turn_that_began_is_finished_and_the_limit_comes_before_the_next(
    store_class: type[Store], fast_path: Path
) -> None:
    """`turns_max` stops before a request, a resume may raise it, and what it was set to holds for the lives after."""
    made = scene(fast_path, store_class, *[asks(call(f"t{n}")) for n in range(5)], says("done"))
    first = made.live(turns_max=2)
    same = made.live()
    raised = made.live(turns_max=3)
    kept = made.live()
    last = made.live(turns_max=9)

    assert [2, 2, 3, 3, 5] == [ended.turns for ended in (first, same, raised, kept, last)]
    assert ["stopped"] * 4 + ["done"] == [ended.status for ended in (first, same, raised, kept, last)]
    assert "the limit of 2 turns" in first.reason
    assert [f"t{n}" for n in range(5)] == made.world.of("effect")


@both_stores
@pytest.mark.parametrize("turns_max", [0, -1])
def test_a_limit_that_lets_nothing_happen_is_refused(store_class: type[Store], fast_path: Path, turns_max: int) -> None:
    """At least one turn must be allowed, or nothing is started."""
    made = scene(fast_path, store_class, says("done"))

    with pytest.raises(UsageError, match="turns_max"):
        made.live(turns_max=turns_max)
    assert not made.store.directory.exists()


def test_importing_the_harness_imports_nothing_heavy() -> None:
    """The SDK takes over a second to import: only one who asks for `AnthropicModel` pays for it."""
    heavy = ["anthropic", "httpx2", "pydantic", "asyncio", "hypothesis", "unittest", "crashtests"]
    code = f"import sys, harness.cli; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout


def test_without_a_word_there_is_a_limit(fast_path: Path) -> None:
    """A task that nobody has given a limit may take 50 turns, and the saved run says so."""
    made = Scene(fast_path, JsonStore, [says("done")])
    made.live()

    assert 50 == made.saved.turns_max


def test_without_a_word_warnings_go_to_stderr(fast_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who does not listen to warnings gets them where a person looks, and progress nowhere."""
    made = Scene(fast_path, JsonStore, [asks(call("t1")), says("done")])
    made.tools = [made.world.tool()]
    made.live(turns_max=1)
    made.tools = []
    capsys.readouterr()
    made.live(turns_max=2)

    assert ("", "warning: this run was started with tools that are not here now: act\n") == capsys.readouterr()
