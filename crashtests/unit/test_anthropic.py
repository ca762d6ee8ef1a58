"""The SDK: a real `anthropic.Anthropic` over a transport in this process, its tools, and what our lists take from it.

Everything that needs the SDK in the test process is in the files named after it, since importing it takes over a
second: they import it when a test is run, not when it is collected, and are neighbours at the head of the unit tests,
where pytest-xdist deals out so many tests at a time that they all go to one worker.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Required, get_args, get_origin, get_type_hints

import pytest

import harness
from crashtests.api import judge
from crashtests.unit.bodies import asks, call, result, says, text
from crashtests.unit.cli import DEMO_RESPONSES, run_cli
from crashtests.unit.cli_tools import MODULE
from crashtests.unit.lives import both_stores, scene_killed_here
from crashtests.unit.loopback import MessagesApi, serving
from crashtests.unit.scenes import Scene
from crashtests.unit.world import DONE_TEXT
from harness import Effect, JsonStore, ModelFailed, ScriptedModel, Store, Tool, UsageError
from harness.ledger import input_sha256
from harness.outcome import RESULT_BLOCKS
from harness.stop_reasons import STOP_REASONS

if TYPE_CHECKING:
    import httpx2

    from harness import AnthropicModel

    Handler = Callable[[httpx2.Request], httpx2.Response]

QUESTION: dict[str, Any] = {
    "model": "claude-opus-5-5",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Do it."}],
}


def model(handler: Handler, **options: Any) -> AnthropicModel:
    """A model behind a real client whose requests end in `handler`."""
    import anthropic
    import httpx2

    client = anthropic.Anthropic(
        api_key="not-a-key",
        base_url="https://api.invalid",
        http_client=httpx2.Client(transport=httpx2.MockTransport(handler)),
        **({"max_retries": 0} | options),
    )
    return harness.AnthropicModel(client=client)


def reply(status: int, **content: Any) -> httpx2.Response:
    import httpx2

    return httpx2.Response(status, **content)


def answers(*responses: Any) -> Handler:
    """An API that answers from a script, by position, and refuses what breaks its rules."""
    script = ScriptedModel(responses)

    def handle(request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        if violations := judge(body, paused=True):
            error = {"type": "invalid_request_error", "message": str(violations)}
            return reply(400, json={"type": "error", "error": error})
        return reply(200, json=script.ask(body))

    return handle


ODD_BODY = asks(
    {"type": "thinking", "thinking": "", "signature": "c2ln"},
    text("a") | {"citations": None},
    {"type": "from_the_future", "x": [1.5, 10**20, {"y": None}]},
    call("t1", n=10**20, none=None) | {"toolset_name": None},
    context_management=None,
    usage={"input_tokens": 1, "output_tokens": 2, "cache_creation": None, "new_counter": {"a": [None]}},
    stop_details=None,
)


def test_a_response_comes_as_it_was_sent() -> None:
    """Unknown fields, unknown blocks, nulls and big numbers are there, and nothing was added."""
    asked = model(lambda request: reply(200, json=ODD_BODY))

    assert ODD_BODY == asked.ask(QUESTION)


def test_a_request_goes_out_as_it_is() -> None:
    """The body on the wire is the request, value for value, with the model's own options beside it."""
    bodies: list[Any] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        return reply(200, json=says("done"))

    client = model(handle)._client
    turn = {"role": "assistant", "content": ODD_BODY["content"]}
    request = QUESTION | {"messages": [*QUESTION["messages"], turn], "tools": [{"name": "act"}], "system": "Be brief."}
    harness.AnthropicModel(client=client, options={"thinking": {"type": "adaptive"}}).ask(request)

    assert [request | {"thinking": {"type": "adaptive"}}] == bodies


# --- what goes wrong --------------------------------------------------------------------------------------------------


def raise_connection(request: httpx2.Request) -> httpx2.Response:
    import httpx2

    raise httpx2.ConnectError("no route to host")


def status(code: int) -> Handler:
    error = {"type": "error", "error": {"type": "some_error", "message": f"status {code} it is"}}
    return lambda request: reply(code, json=error)


def raw(content: bytes, kind: str = "application/json") -> Handler:
    return lambda request: reply(200, content=content, headers={"content-type": kind})


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        *[(status(code), f"the API answered {code}: ") for code in (400, 401, 403, 404, 413, 429, 500, 503, 529)],
        (raw(b"<html>down</html>", "text/html"), "could not be reached or understood"),
        (raw(b'{"type": "message", "cont'), "could not be reached or understood"),
        (raw(b""), "could not be reached or understood"),
        (raw(b"\xff\xfe"), "could not be reached or understood"),
        (raw(b"[" * 100_000), "could not be reached or understood"),
        (raise_connection, "could not be reached or understood: Connection error"),
    ],
    ids=range(15),
)
def test_what_is_no_answer_is_a_model_failure(handler: Handler, problem: str) -> None:
    """Every way in which the API fails to answer is one kind of error, which names the status where there is one."""
    with pytest.raises(ModelFailed) as caught:
        model(handler).ask(QUESTION)

    assert problem in str(caught.value)


@pytest.mark.parametrize("options", [{"max_tokens": 5}, {"effort_of_my_own": "high"}], ids=str)
def test_what_the_sdk_does_not_take_is_a_model_failure(options: dict[str, Any]) -> None:
    """Options that the SDK has no place for, or credentials it cannot find, stop the run with what the SDK says."""
    client = model(answers(says("done")))._client

    with pytest.raises(ModelFailed, match=next(iter(options))):
        harness.AnthropicModel(client=client, options=options).ask(QUESTION)


def test_a_request_the_sdk_will_not_send_is_a_model_failure() -> None:
    """The SDK wants long responses streamed; its refusal is an error like the API's own."""
    with pytest.raises(ModelFailed, match="could not be reached or understood: Streaming is required"):
        model(answers(says("done"))).ask(QUESTION | {"max_tokens": 30_000})


def test_the_sdk_retries_and_tools_do_not_run_again(fast_path: Path) -> None:
    """A busy API costs attempts, as many as the SDK makes by default, and nothing else: no tool is run for it."""
    made = Scene(fast_path / "run", JsonStore, [])
    made.tools = [made.world.tool()]
    answer, busy = answers(asks(call("t1")), says("done")), [529, 429]
    attempts: list[tuple[int, str]] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        asked = len(json.loads(request.content)["messages"])
        attempts.append((asked, request.headers["x-stainless-retry-count"]))
        if asked == 3 and busy:
            return reply(busy.pop(), headers={"retry-after-ms": "1"})
        return answer(request)

    from anthropic import DEFAULT_MAX_RETRIES

    made.model = model(handle, max_retries=DEFAULT_MAX_RETRIES)
    made.completed()

    assert [(1, "0"), (3, "0"), (3, "1"), (3, "2")] == attempts
    assert (["t1"], ["t1"]) == (made.world.of("entry"), made.world.of("effect"))


@both_stores
def test_an_api_that_stays_down_stops_the_run(store_class: type[Store], fast_path: Path) -> None:
    """After its retries the run stops with the status, and a resume goes on where it was."""
    made = Scene(fast_path / "run", store_class, [])
    made.tools = [made.world.tool()]
    up, down = answers(asks(call("t1")), says("done")), status(529)
    asked: list[int] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        asked.append(len(json.loads(request.content)["messages"]))
        return (up if len(asked) == 1 else down)(request)

    made.model = model(handle)
    stopped = made.live()
    made.model = model(up)
    ended, _ = made.completed()

    assert ("stopped", [1, 3]) == (stopped.status, asked)
    assert "the API answered 529: " in stopped.reason
    assert ("done", ["t1"], 30) == (ended.status, made.world.of("effect"), ended.tokens_used)


@both_stores
@pytest.mark.parametrize("label", ["after-model", "after-tool", "after-save-b"])
def test_a_run_on_the_sdk_is_killed_and_resumed(store_class: type[Store], fast_path: Path, label: str) -> None:
    """The whole way through the real client: killed, resumed, every block sent back as it came."""
    made = Scene(fast_path / "run", store_class, [])
    made.tools = [made.world.tool(verify=made.world.verify)]
    blocks = [{"type": "thinking", "thinking": "", "signature": "c2ln"}, text("a"), call("t1")]
    made.model = model(answers(asks(*blocks), says("done")))
    scene_killed_here(made, label)
    ended, _ = made.completed()

    assert ("done", "done", 1, 30, ()) == (ended.status, ended.answer, ended.turns, ended.tokens_used, ended.unknowns)
    assert blocks == made.messages[1]["content"]
    assert [result("t1", DONE_TEXT)] == made.results()
    assert ["t1"] == made.world.of("effect")
    assert "claude-opus-5-5" == made.saved.prefix["model"]


def test_the_server_refuses_what_the_api_refuses() -> None:
    """The fake can say no: an unanswered call is a 400 of the API's own shape, which the SDK understands."""
    import anthropic as sdk

    with serving(MessagesApi(DEMO_RESPONSES)) as api:
        client = sdk.Anthropic(api_key=api.env()["ANTHROPIC_API_KEY"], base_url=api.url, max_retries=0)
        use = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
        messages: Any = [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": "And?"},
        ]
        with pytest.raises(sdk.BadRequestError) as refused:
            client.messages.create(
                model="claude-opus-5-5",
                max_tokens=100,
                messages=messages,
                tools=[{"name": "look", "input_schema": {"type": "object"}}],
            )
        client.close()

    assert "toolu_1" in refused.value.message
    assert [refused.value.body] == api.refused


# --- the SDK's tools --------------------------------------------------------------------------------------------------


@cache
def repeat() -> Any:
    """A tool as the SDK's decorator makes it."""
    from anthropic import beta_tool
    from anthropic.lib.tools import ToolError

    @beta_tool
    def repeat(word: str, times: int = 2) -> str:
        """Say a word several times.

        Args:
            word: The word.
            times: How often.
        """
        if word == "":
            raise ToolError("a word is needed")
        return " ".join([word] * times)

    return repeat


def test_an_sdk_tool_is_offered_as_the_sdk_describes_it() -> None:
    """Name, description and schema are the decorator's; the effect class is given beside it."""
    made = Tool.from_sdk(repeat(), effect=Effect.READ_ONLY)

    assert ("repeat", repeat().to_dict(), Effect.READ_ONLY) == (made.name, made.definition, made.effect)
    assert [] == judge(QUESTION | {"tools": [made.definition]})


def test_an_sdk_tool_that_is_async_is_refused() -> None:
    """Async tools are not for this harness, and it says so at once."""
    from anthropic import beta_async_tool

    @beta_async_tool
    async def repeat_later(word: str) -> str:
        """Say a word later."""
        return word

    with pytest.raises(UsageError, match="is async"):
        Tool.from_sdk(repeat_later)


@both_stores
def test_an_sdk_tool_runs_on_the_raw_input(store_class: type[Store], fast_path: Path) -> None:
    """The SDK may coerce arguments for the function; history and ledger hold what the model said."""
    script = [
        asks(
            call("t1", "repeat", word="a", times="3"),
            call("t2", "repeat", word=""),
            call("t3", "repeat", times=1),
        ),
        says("done"),
    ]
    made = Scene(fast_path / "run", store_class, script)
    made.tools = [Tool.from_sdk(repeat())]
    made.completed()
    first, second, third = made.results()

    assert result("t1", "a a a") == first
    assert result("t2", "ToolError: a word is needed", is_error=True) == second
    assert third["is_error"]
    assert "Invalid arguments for function repeat" in third["content"]
    assert {"word": "a", "times": "3"} == made.messages[1]["content"][0]["input"]
    entry = made.store.read()[1].get("t1")
    assert entry is not None
    assert input_sha256({"word": "a", "times": "3"}) == entry.input_sha256


# --- our lists against the SDK's --------------------------------------------------------------------------------------


def test_the_stop_reasons_are_the_sdks() -> None:
    """A reason that a later SDK knows must get its row, with a stated move."""
    from anthropic.types import StopReason

    assert set(get_args(StopReason)) == set(STOP_REASONS)


def _keys(block: type) -> tuple[str, set[str], set[str]]:
    """Of one of the SDK's block types: the name, the keys it needs besides `type`, and those it may have."""
    hints = get_type_hints(block, include_extras=True)
    (literal,) = get_args(hints.pop("type"))
    needed = {key for key, hint in hints.items() if get_origin(hint) is Required}
    return get_args(literal)[0], needed, hints.keys() - needed


def test_the_result_blocks_are_the_sdks() -> None:
    """Types and keys of what a tool may return as blocks, against the SDK's own types of a tool_result's content."""
    from anthropic.types import tool_result_block_param

    blocks = {name: keys for name, *keys in map(_keys, get_args(tool_result_block_param.Content))}
    # Only for tools of the API's own toolsets and its tool search, which a tool of ours is not.
    foreign = {"tool_reference", "browser_state"}

    assert {*RESULT_BLOCKS} | foreign == set(blocks)
    for name, (needed, allowed) in RESULT_BLOCKS.items():
        # The API refuses citations in a text that a user sends (rule B8).
        refused = {"citations"} if name == "text" else set()
        assert [set(needed), allowed | refused] == blocks[name]


@pytest.mark.parametrize(
    ("name", "value"),
    [("HTTPS_PROXY", "odd://x"), ("SSL_CERT_FILE", "/no/such/file"), ("ANTHROPIC_BASE_URL", "http://[::1")],
)
def test_a_client_that_cannot_be_made_is_wrong_usage(name: str, value: str, fast_path: Path) -> None:
    """What the environment holds for the SDK, and it cannot use, is named in one line, and nothing is left."""
    run = ("--live", "--task", "x", "--tools", MODULE)
    ran = run_cli(*run, cwd=fast_path, env={"ANTHROPIC_API_KEY": "of-a-test", name: value})

    assert 2 == ran.status
    assert 1 == len(ran.lines)
    assert ran.out.startswith("[usage] the SDK's client cannot be made: ")
    assert [] == list(fast_path.iterdir())
