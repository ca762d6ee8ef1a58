"""`python -m harness --live`, through the real SDK, against a Messages API on loopback: killed and resumed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from crashtests.unit.bodies import asks, call, says
from crashtests.unit.cli import (
    DEMO_DONE,
    DEMO_RESPONSES,
    DEMO_SCRIPT,
    KILLED,
    called,
    cold,
    report_ids,
    snapshot,
    write_script,
)
from crashtests.unit.cli_tools import MODULE, effects
from crashtests.unit.lives import killed
from crashtests.unit.loopback import MessagesApi, serving
from harness import cli, crash

# Whole command lines with the SDK in them.
pytestmark = pytest.mark.slow


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    """The demonstration's script, as the API would answer it; it must never have been sent what it refuses."""
    with serving(MessagesApi(DEMO_RESPONSES)) as api:
        yield api

    assert [] == api.refused


def kill(*arguments: str, cwd: Path, crash_after: str, env: Mapping[str, str] | None = None) -> None:
    """A life that is killed: a fork of this process, for the SDK would have to be loaded again in any other."""

    def life() -> int:
        os.environ.update(env or {})
        os.chdir(cwd)
        return cli.main(arguments)

    killed(life, *crash.parse_crash_after(crash_after))


@pytest.mark.parametrize(
    ("crash_after", "asked"),
    [
        ("after-model:1", 5),
        ("after-save-a:2", 4),
        ("save-a.half-written:3", 5),
        ("after-tool:3", 4),
        ("after-effect-write:3", 4),
        ("after-model:4", 5),
    ],
)
def test_killed_and_resumed(crash_after: str, asked: int, api: MessagesApi, fast_path: Path) -> None:
    """The API accepts every request after a kill, thinking blocks and all, and is asked once more at most."""
    kill("--live", cwd=fast_path, env=api.env(), crash_after=crash_after)
    assert (0, DEMO_DONE) == called("--live", "--resume", cwd=fast_path, env=api.env()).end
    assert 1 == len(report_ids(fast_path))
    assert asked == len(api.requests)

    thoughts = [block["type"] for message in api.requests[-1]["messages"][1::2] for block in message["content"]]
    assert 3 == thoughts.count("thinking")


def test_killed_in_a_process_of_its_own(api: MessagesApi, fast_path: Path) -> None:
    """What the forks show holds for a cold process, on the other store, by the command line of a supervisor."""
    options = ("--live", "--store", "sqlite", "--resume-or-start")
    first = cold(*options, cwd=fast_path, env=api.env(), crash_after="after-started-mark")

    assert (KILLED, "[kill] after-started-mark:1") == first.end
    assert (0, DEMO_DONE) == called(*options, cwd=fast_path, env=api.env()).end
    assert 1 == len(report_ids(fast_path))
    assert 4 == len(api.requests)


def test_api_down(api: MessagesApi, fast_path: Path) -> None:
    """3: an API that is down for all of the SDK's attempts stops the run; a resume asks again, and runs no tool."""
    kill("--live", cwd=fast_path, env=api.env(), crash_after="after-save-b:3")
    api.unavailable, asked, before = 3, api.attempts, snapshot(fast_path)

    status, last_line = called("--live", "--resume", cwd=fast_path, env=api.env()).end

    assert 3 == status
    assert last_line.startswith("[stopped] turns=3 tokens_used=3621 unknowns=0 reason: the API answered 529: ")
    assert 3 == api.attempts - asked
    assert before == snapshot(fast_path)
    assert (0, DEMO_DONE) == called("--live", "--resume", cwd=fast_path, env=api.env()).end
    assert 1 == len(report_ids(fast_path))


def test_api_that_recovers(api: MessagesApi, fast_path: Path) -> None:
    """An API that is down for less than the SDK's attempts is not even noticed."""
    api.unavailable = 2

    assert (0, DEMO_DONE) == called("--live", cwd=fast_path, env=api.env()).end
    assert (4, 6) == (len(api.requests), api.attempts)


def test_nobody_there(api: MessagesApi, fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """3: no connection at all, or no address that makes sense; the state waits for better times."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    for url in ("http://127.0.0.1:1", "http://[", "nonsense"):
        env = api.env() | {"ANTHROPIC_BASE_URL": url}
        status, last_line = called("--live", cwd=fast_path, env=env).end

        assert 3 == status
        assert "turns=0 tokens_used=0 unknowns=0 reason: the API could not be reached or understood" in last_line
    assert (0, DEMO_DONE) == called("--live", "--resume", cwd=fast_path, env=api.env()).end


def test_wrong_key(api: MessagesApi, fast_path: Path) -> None:
    """3: a key that the API does not know is what the API says it is."""
    env = api.env() | {"ANTHROPIC_API_KEY": "another"}
    status, last_line = called("--live", cwd=fast_path, env=env).end

    assert (3, True) == (status, "reason: the API answered 401: " in last_line)


DEEP = b"[" * 900 + b"]" * 900
BODIES = [
    b"<html>Bad gateway</html>",
    b'{"content": [{"type": "text", "te',
    b"",
    b"[]",
    b"[" * 100_000,
    b'{"stop_reason": "end_turn", "content": [{"type": "text", "text": "Hi.", "more": ' + DEEP + b"}]}",
]


def test_answers_that_are_none(api: MessagesApi, fast_path: Path) -> None:
    """3: a 200 that is no Messages API response is no turn; a resume asks again, as often as it takes."""
    for body in BODIES:
        api.raw = body
        status, last_line = called("--live", "--resume-or-start", cwd=fast_path, env=api.env()).end

        assert (3, True) == (status, last_line.startswith("[stopped] turns=0 tokens_used=0 unknowns=0 reason: "))
    assert (0, DEMO_DONE) == called("--live", "--resume", cwd=fast_path, env=api.env()).end


def test_model_name(api: MessagesApi, fast_path: Path) -> None:
    """`--model` names the model of every request; a resume keeps it, and is refused another."""
    named = ("--live", "--model", "claude-sonnet-5-5")
    kill(*named, cwd=fast_path, env=api.env(), crash_after="after-save-b")
    other = called("--live", "--resume", "--model", "claude-opus-5", cwd=fast_path, env=api.env()).end
    why = "the run was started with 'claude-sonnet-5-5'; leave it out, or start afresh"

    assert (2, f"[usage] --model claude-opus-5: {why}") == other
    assert (0, DEMO_DONE) == called("--live", "--resume", cwd=fast_path, env=api.env()).end
    assert ["claude-sonnet-5-5"] * 4 == [request["model"] for request in api.requests]


@pytest.mark.parametrize("name", ["", " ", "claude\udcff"])
def test_model_name_that_is_none(name: str, api: MessagesApi, fast_path: Path) -> None:
    """2: a model name that is blank or no text is wrong usage."""
    status, last_line = called("--live", "--model", name, cwd=fast_path, env=api.env()).end

    assert (2, True) == (status, last_line.startswith(f"[usage] model name={name!r}"))
    assert {} == snapshot(fast_path)


def test_live_run_resumed_without_live(api: MessagesApi, fast_path: Path) -> None:
    """2: a live run is not handed to a script; without a key it is not resumed at all."""
    kill("--live", cwd=fast_path, env=api.env(), crash_after="after-save-b")
    before = snapshot(fast_path)

    for options in ((), ("--script", str(DEMO_SCRIPT))):
        status, last_line = called("--resume", *options, cwd=fast_path).end

        assert (2, True) == (status, last_line.startswith("[usage] the run was started with --live (model 'claude-"))
    assert (2, "[usage] --live needs ANTHROPIC_API_KEY in the environment") == called(
        "--live", "--resume", cwd=fast_path
    ).end
    assert before == snapshot(fast_path)


SDK_TOOLS = f"""
from anthropic import beta_tool
from harness import Effect, Tool
from {MODULE} import act

@beta_tool
def add(a: int, b: int = 1) -> str:
    \"\"\"Add two numbers.

    Args:
        a: The first.
        b: The second.
    \"\"\"
    act({{}})
    return str(a + b)

TOOLS = [Tool.from_sdk(add, effect=Effect.IDEMPOTENT)]
"""


def test_tools_of_the_sdk(fast_path: Path) -> None:
    """A tools file may wrap what `@beta_tool` made; its arguments are checked, and its effect class holds."""
    (fast_path / "mine.py").write_text(SDK_TOOLS)
    script = write_script(fast_path, asks(call("x", "add", a="2", b=3), call("y", "add", a="two")), says("Done."))
    run = ("--tools", "mine.py", "--script", script)

    kill(*run, cwd=fast_path, crash_after="after-tool")
    assert (0, '[done] turns=1 tokens_used=30 unknowns=0 answer="Done."') == called("--resume", *run, cwd=fast_path).end

    saved = json.loads((fast_path / ".harness/checkpoint.json").read_text())
    results = saved["messages"][2]["content"]

    assert ("5", False) == (results[0]["content"], "is_error" in results[0])
    assert ("ValueError: Invalid arguments", True) == (results[1]["content"][:29], results[1]["is_error"])
    assert ["act x", "act x"] == effects(fast_path)
