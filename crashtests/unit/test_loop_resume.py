"""Resuming: the run that goes on is the one that was started, whatever this life brings along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crashtests.unit.bodies import asks, call, result, says
from crashtests.unit.lives import both_stores
from crashtests.unit.scenes import STORES, TASK, Scene
from crashtests.unit.world import DONE_TEXT, WorldModel
from harness import Effect, StateMode, StateRefused, Store, Tool, UsageError, run_agent
from harness.settle import UNKNOWN_TEXT

SCRIPT = [asks(call("t1")), asks(call("t2")), says("done")]


def scene(path: Path, store_class: type[Store], *responses: Any, **options: Any) -> Scene:
    made = Scene(path / "run", store_class, responses or SCRIPT, **options)
    made.tools = [made.world.tool()]
    return made


class OtherModel(WorldModel):
    """The same script under another name, as after a change of the default."""

    name = "another"


@both_stores
def test_every_life_sends_the_prefix_that_was_saved(store_class: type[Store], fast_path: Path) -> None:
    """Model name, system prompt and tools go out as the first life sent them, though this life has others."""
    made = scene(fast_path, store_class)
    made.live(system="Be brief.", turns_max=1, max_tokens=100)
    assert isinstance(made.model, WorldModel)
    first = made.model.requests[0]
    made.model = OtherModel(made.world, SCRIPT)
    act = made.tools[0]
    made.tools = [made.world.tool("extra"), Tool("act", "Now acts better.", {"type": "object", "x": 1}, act.run)]
    ended = made.live(turns_max=9)
    later = made.model.requests

    assert ("scripted", "Be brief.", [act.definition]) == (first["model"], first["system"], first["tools"])
    assert {key: first[key] for key in ("model", "system", "tools")} == made.saved.prefix
    assert [made.saved.prefix] * 2 == [{key: r[key] for key in made.saved.prefix} for r in later]
    assert {"model", "system", "tools", "max_tokens", "messages"} == later[0].keys()
    assert [100, 16_000] == [first["max_tokens"], later[0]["max_tokens"]]
    assert ("done", ["t1", "t2"]) == (ended.status, made.world.of("effect"))


@both_stores
def test_a_finished_run_stays_finished(store_class: type[Store], fast_path: Path) -> None:
    """A resume of a finished run gives its answer again, asks nothing, misses nothing, runs nothing, writes nothing."""
    made = scene(fast_path, store_class)
    warned: list[str] = []
    ended = made.live()
    before = {p.name: p.read_bytes() for p in made.store.directory.iterdir()}
    made.tools = []
    again, once_more = made.live(warn=warned.append), made.live(resume=True, turns_max=1, warn=warned.append)

    assert ([ended, ended], []) == ([again, once_more], warned)
    assert (3, ["t1", "t2"]) == (len(made.world.of("ask")), made.world.of("effect"))
    assert before == {p.name: p.read_bytes() for p in made.store.directory.iterdir()}


@both_stores
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"task": "Do something else."}, UsageError),
        ({"system": "Be long."}, UsageError),
        ({"started_marks": False}, StateMode),
    ],
    ids=["task", "system", "marks"],
)
def test_another_run_cannot_be_resumed_in_its_place(
    store_class: type[Store], fast_path: Path, options: dict[str, Any], error: type[Exception]
) -> None:
    """Asking for another task, prompt or protocol than the run has is refused, and nothing on disk changes."""
    made = scene(fast_path, store_class)
    made.live(system="Be brief.", turns_max=1)
    before = {p.name: p.read_bytes() for p in made.store.directory.iterdir()}

    with pytest.raises(error):
        made.live(**({"resume": True, "turns_max": 9} | options))
    assert before == {p.name: p.read_bytes() for p in made.store.directory.iterdir()}
    assert 1 == len(made.world.of("ask"))


@both_stores
def test_what_a_run_keeps_may_be_left_out(store_class: type[Store], fast_path: Path) -> None:
    """Task, prompt and protocol need not be given again; a resume takes the ones that were saved, without a warning."""
    made = scene(fast_path, store_class, marks=False)
    made.live(system="Be brief.", turns_max=1)
    warned: list[str] = []
    ended = made.live(task=None, resume=True, started_marks=None, turns_max=9, warn=warned.append)

    assert ("done", False, []) == (ended.status, made.saved.started_marks, warned)


@both_stores
@pytest.mark.parametrize(("resume", "error"), [(True, StateRefused), ("or-start", None), (False, None)])
def test_where_nothing_is_there_only_a_start_can_go_on(
    store_class: type[Store], fast_path: Path, resume: Any, error: type[Exception] | None
) -> None:
    """A resume of nothing is refused and makes no directory; "or-start" starts."""
    made = scene(fast_path, store_class)
    if error is not None:
        with pytest.raises(error):
            made.live(resume=resume)
        assert not made.store.directory.exists()
    else:
        assert "done" == made.live(resume=resume).status


@pytest.mark.parametrize(
    "texts",
    [{"task": ""}, {"task": " \n"}, {"task": None}, {"task": "a\ud800"}, {"system": ""}, {"system": "\udcb2"}],
    ids=repr,
)
def test_a_start_that_the_api_would_refuse_is_refused(fast_path: Path, texts: dict[str, Any]) -> None:
    """A blank or unsendable task or prompt is found before anything is written."""
    made = scene(fast_path, STORES["json"])

    with pytest.raises(UsageError):
        made.live(**texts)
    assert not made.store.directory.exists()


@both_stores
def test_a_fresh_start_sets_the_run_aside_and_is_another_run(store_class: type[Store], fast_path: Path) -> None:
    """Without resume the old pair is kept, said where, and nothing of it is used."""
    made = scene(fast_path, store_class)
    said: list[str] = []
    first = made.live(turns_max=1)
    second = made.live(resume=False, say=said.append)

    assert first.run_id != second.run_id
    assert ("done", 45) == (second.status, second.tokens_used)
    assert [f"[start] an earlier run was set aside in {made.store.directory / 'set-aside-1'}"] == said[:1]


@both_stores
def test_whoever_does_not_say_resume_starts(store_class: type[Store], fast_path: Path) -> None:
    """By default a run is started, whether or not one is there, which is then set aside."""
    made = scene(fast_path, store_class)
    first = run_agent(made.model, TASK, made.tools, made.store)
    second = run_agent(made.model, TASK, made.tools, made.store)

    assert ["done", "done"] == [first.status, second.status]
    assert (second.run_id, True) == (made.saved.run_id, (made.store.directory / "set-aside-1").is_dir())


READ_ONLY, IDEMPOTENT, SIDE_EFFECT = Effect.READ_ONLY, Effect.IDEMPOTENT, Effect.SIDE_EFFECT
GONE_TEXT = "The tool 'act' is no longer available, so this call has no result."


@both_stores
@pytest.mark.parametrize(
    ("label", "was", "now", "content", "entries"),
    [
        ("after-tool", READ_ONLY, SIDE_EFFECT, DONE_TEXT, 2),
        ("after-tool", SIDE_EFFECT, READ_ONLY, UNKNOWN_TEXT, 1),
        ("after-tool", SIDE_EFFECT, IDEMPOTENT, UNKNOWN_TEXT, 1),
        ("after-tool", IDEMPOTENT, SIDE_EFFECT, DONE_TEXT, 2),
        ("after-tool", READ_ONLY, None, GONE_TEXT, 1),
        ("after-tool", IDEMPOTENT, None, UNKNOWN_TEXT, 1),
        ("after-tool", SIDE_EFFECT, None, UNKNOWN_TEXT, 1),
        ("after-save-a", SIDE_EFFECT, None, GONE_TEXT, 0),
        ("after-save-a", IDEMPOTENT, None, GONE_TEXT, 0),
        ("after-save-a", SIDE_EFFECT, READ_ONLY, DONE_TEXT, 1),
        ("after-effect-write", SIDE_EFFECT, None, DONE_TEXT, 1),
        ("after-effect-write", READ_ONLY, None, DONE_TEXT, 1),
    ],
)
def test_a_call_is_reconciled_by_what_its_tool_was(
    store_class: type[Store],
    fast_path: Path,
    label: str,
    was: Effect,
    now: Effect | None,
    content: str,
    entries: int,
) -> None:
    """The class counts that the tool had when the call was made; a tool that is gone is not run, and not denied."""
    made = scene(fast_path, store_class, asks(call("t1")), says("done"))
    made.tools = [made.world.tool(effect=was)]
    made.killed(label)
    made.tools = [made.world.tool(effect=now)] if now else [made.world.tool("other")]
    ended, said = made.completed()
    is_error = content != DONE_TEXT

    assert [result("t1", content, is_error=is_error)] == made.results()
    assert ("done", entries) == (ended.status, len(made.world.of("entry")))
    assert (now is None) == any("tools that are not here now: act" in line for line in said)


@both_stores
def test_a_tool_that_came_later_does_not_answer_an_earlier_call(store_class: type[Store], fast_path: Path) -> None:
    """A call of a tool that did not exist stays one, though a tool of that name exists by now."""
    made = scene(fast_path, store_class, asks(call("t1", "later")), says("done"))
    made.killed("after-save-a")
    made.tools.append(made.world.tool("later"))
    made.completed()

    assert [True] == [block["is_error"] for block in made.results()]
    assert [] == made.world.of("entry")
