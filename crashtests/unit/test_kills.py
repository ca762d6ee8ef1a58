"""Every row of the reconcile table, with real kills: on both stores, with started marks and without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crashtests.unit.bodies import asks, call, result, says
from crashtests.unit.lives import both_protocols, both_stores
from crashtests.unit.scenes import Scene
from crashtests.unit.world import DONE_TEXT, World
from harness import Effect, Result, Store, Tool
from harness.ledger import Settled
from harness.settle import UNKNOWN_TEXT

READ_ONLY, IDEMPOTENT, SIDE_EFFECT = Effect.READ_ONLY, Effect.IDEMPOTENT, Effect.SIDE_EFFECT
SCRIPT = [asks(call("t1", n=1)), asks(call("t2")), says("done")]
UNKNOWN = result("t1", UNKNOWN_TEXT, is_error=True)

# Slow, since the sweep meets the same rows of the table; here each stands by itself, to be read.
pytestmark = [both_stores, both_protocols, pytest.mark.slow]


class Runs:
    """Makes a run and its uninterrupted twin, and compares their ends."""

    def __init__(self, directory: Path, store_class: type[Store], marks: bool) -> None:
        self._directory = directory
        self._store_class = store_class
        self._marks = marks

    def make(self, tools: Callable[[World], list[Tool]], script: Any = SCRIPT, name: str = "run") -> Scene:
        made = Scene(self._directory / name, self._store_class, script, marks=self._marks)
        made.tools = tools(made.world)
        return made

    def ends_as_if_never_killed(self, killed: Scene, tools: Callable[[World], list[Tool]], script: Any = SCRIPT) -> Any:
        """Let `killed` come to its end; it must be the end of the uninterrupted run. Returns what was said."""
        ended, said = killed.completed()
        twin = self.make(tools, script, "twin")
        reference, _ = twin.completed()
        assert twin.messages == killed.messages
        assert _end(reference) == _end(ended)
        return said


def _end(ended: Result) -> tuple[Any, ...]:
    return (ended.status, ended.reason, ended.answer, ended.turns, ended.tokens_used, ended.unknowns)


@pytest.fixture
def runs(fast_path: Path, store_class: type[Store], marks: bool) -> Runs:
    return Runs(fast_path, store_class, marks)


def one(effect: Effect, verify: str | None = None) -> Callable[[World], list[Tool]]:
    """A single tool of this class; `verify` names the world's method that settles it."""
    return lambda world: [world.tool(effect=effect, verify=getattr(world, verify) if verify else None)]


def test_what_has_finished_is_reused(runs: Runs) -> None:
    """The ledger holds the outcome: it is used, and the tool does not run again."""
    made = runs.make(one(SIDE_EFFECT))
    made.killed("after-effect-write")
    said = runs.ends_as_if_never_killed(made, one(SIDE_EFFECT))

    assert ["t1", "t2"] == made.world.of("entry") == made.world.of("effect")
    assert any("ledger hit" in line and "t1" in line for line in said)


def test_a_read_only_call_runs_again(runs: Runs) -> None:
    """Nothing can go wrong by looking twice, so it is done and nobody is told of anything unknown."""
    made = runs.make(one(READ_ONLY))
    made.killed("after-tool")
    runs.ends_as_if_never_killed(made, one(READ_ONLY))

    assert ["t1", "t1", "t2"] == made.world.of("entry")


@pytest.mark.parametrize("effect", [IDEMPOTENT, SIDE_EFFECT])
def test_what_has_not_started_runs_for_the_first_time(runs: Runs, effect: Effect, marks: bool) -> None:
    """With started marks, silence is evidence: it never began. Without them a side effect may have: unknown."""
    made = runs.make(one(effect))
    made.killed("after-save-a")
    if marks or effect is IDEMPOTENT:
        said = runs.ends_as_if_never_killed(made, one(effect))
        assert any(("nothing can have happened" if marks else "same key") in line for line in said)
        assert ["t1", "t2"] == made.world.of("entry") == made.world.of("effect")
    else:
        made.completed()
        assert [UNKNOWN, result("t2", DONE_TEXT)] == made.results()
        assert ["t2"] == made.world.of("entry")


def test_an_idempotent_call_runs_again_under_the_same_key(runs: Runs) -> None:
    """It may have begun, and that does not matter: the key is the same, so the effect happens once."""
    made = runs.make(one(IDEMPOTENT))
    made.killed("after-tool")
    runs.ends_as_if_never_killed(made, one(IDEMPOTENT))

    assert ["t1", "t1", "t2"] == made.world.of("entry")
    assert ["t1", "t2"] == made.world.of("effect")


@pytest.mark.parametrize(("label", "entries"), [("tool-entered", ["t1", "t1", "t2"]), ("after-tool", ["t1", "t2"])])
def test_verify_settles_what_may_have_begun(runs: Runs, label: str, entries: list[str]) -> None:
    """Not done: it is run now. Done: its outcome is used. Either way the effect happens once and nothing is unknown."""
    made = runs.make(one(SIDE_EFFECT, "verify"))
    made.killed(label)
    runs.ends_as_if_never_killed(made, one(SIDE_EFFECT, "verify"))

    assert ["t1"] == made.world.of("verify")
    assert entries == made.world.of("entry")
    assert ["t1", "t2"] == made.world.of("effect")
    settled = made.store.read()[1].entries["t1"].settled
    assert (Settled.VERIFIED if label == "after-tool" else Settled.RUN) is settled


@pytest.mark.parametrize(
    ("verify", "label", "effects"),
    [
        ("verify_cannot_tell", "tool-entered", ["t2"]),
        ("verify_cannot_tell", "after-tool", ["t1", "t2"]),
        ("verify_raises", "after-tool", ["t1", "t2"]),
        ("verify_says_nothing", "after-tool", ["t1", "t2"]),
    ],
)
def test_a_verify_that_cannot_tell_leaves_it_unknown(runs: Runs, verify: str, label: str, effects: list[str]) -> None:
    """A verify that does not know, fails or answers nonsense settles nothing: the model is told, nothing repeated."""
    made = runs.make(one(SIDE_EFFECT, verify))
    made.killed(label)
    ended, said = made.completed()

    assert [UNKNOWN, result("t2", DONE_TEXT)] == made.results()
    assert (["t1"], ["t1", "t2"], effects) == tuple(made.world.of(kind) for kind in ("verify", "entry", "effect"))
    assert ("done", ("t1",)) == (ended.status, ended.unknowns)
    assert (verify != "verify_cannot_tell") == any("verify of act" in line for line in said)
    assert any("verify cannot tell: may have begun: its state is unknown" in line for line in said)


@pytest.mark.parametrize("label", ["after-tool", "after-started-mark"])
def test_an_unknown_is_said_once_and_for_ever(runs: Runs, marks: bool, label: str) -> None:
    """The unknown is recorded before it is told: a resume that is killed too says the same and runs nothing."""
    if label == "after-started-mark" and not marks:
        label = "after-save-a"
    made = runs.make(one(SIDE_EFFECT))
    made.killed(label)
    made.killed("after-effect-write")
    made.killed("after-load")
    ended, said = made.completed()
    before = 0 if label in ("after-started-mark", "after-save-a") else 1

    assert [UNKNOWN, result("t2", DONE_TEXT)] == made.results()
    assert ["t1"] * before + ["t2"] == made.world.of("entry")
    assert any("ledger hit" in line for line in said)
    assert (2, 45, ("t1",)) == (ended.turns, ended.tokens_used, ended.unknowns)


@pytest.mark.parametrize(
    ("label", "effect", "unknown"),
    [
        ("after-save-a", READ_ONLY, False),
        ("after-tool", READ_ONLY, False),
        ("after-save-a", SIDE_EFFECT, None),
        ("after-save-a", IDEMPOTENT, None),
        ("after-tool", SIDE_EFFECT, True),
        ("after-tool", IDEMPOTENT, True),
    ],
)
def test_a_tool_that_is_gone_is_not_denied(
    runs: Runs, marks: bool, label: str, effect: Effect, unknown: bool | None
) -> None:
    """Where nothing can have happened it is no longer available; where the world may have changed it is unknown."""
    made = runs.make(one(effect))
    made.killed(label)
    made.tools = [made.world.tool("other")]
    made.model = runs.make(one(effect), [SCRIPT[0], says("done")], "model").model
    ended, _ = made.completed()
    (answer,) = made.results()
    unknown = not marks if unknown is None else unknown

    assert (True, unknown) == (answer["is_error"], answer["content"] == UNKNOWN_TEXT)
    assert unknown or "no longer available" in answer["content"]
    assert (("t1",) if unknown else ()) == ended.unknowns
    assert (label == "after-tool") == bool(made.world.of("entry"))


MIXED = [
    asks(
        call("a", "send"),
        call("b", "look"),
        call("c", "put"),
        call("d", "send"),
        call("e", "nosuch"),
        call("f", "send"),
    ),
    says("done"),
]


def mixed(world: World) -> list[Tool]:
    return [world.tool("send"), world.tool("look", READ_ONLY), world.tool("put", IDEMPOTENT)]


@pytest.mark.parametrize(("n", "done"), [(1, ""), (3, "ab"), (5, "abcd")])
def test_a_turn_is_settled_call_by_call(runs: Runs, marks: bool, n: int, done: str) -> None:
    """Killed in the n-th tool: what was recorded is reused, that one is unknown or runs again, the rest is settled."""
    made = runs.make(mixed, MIXED)
    made.killed("after-tool", n)
    ended, _ = made.completed()
    killed_in = "abcdf"[n - 1]
    # Without started marks, no pending side effect can be told from one that began.
    unknown = {killed_in} & set("adf") if marks else set("adf") - set(done)
    answers = {block["tool_use_id"]: block for block in made.results()}

    assert "abcdef" == "".join(answers)
    assert unknown == {key for key, block in answers.items() if block["content"] == UNKNOWN_TEXT}
    assert unknown | {"e"} == {key for key, block in answers.items() if "is_error" in block}
    assert sorted(unknown) == sorted(ended.unknowns)
    effects = made.world.of("effect")
    # Looking again is no second effect on anything.
    assert set("abcdf") - (unknown - {killed_in}) == set(effects)
    assert len(effects) == len(set(effects)) + effects.count("b") - ("b" in effects)


INSIDE = [
    ("tool-entered", "after-load", "before-verify"),
    ("after-tool", "before-verify", "after-verify"),
    ("after-tool", "after-verify", "after-effect-write"),
    ("tool-entered", "tool-entered", "after-tool"),
    ("tool-entered", "after-effect-write", "after-save-b"),
    ("after-tool", "after-save-b", "before-model"),
]


@pytest.mark.parametrize("labels", INSIDE, ids="+".join)
def test_killed_inside_resume_again_and_again(runs: Runs, labels: tuple[str, ...]) -> None:
    """Doing it twice is doing it once: resumes that are killed in turn lead to the uninterrupted run's end."""
    made = runs.make(one(SIDE_EFFECT, "verify"))
    for label in labels:
        made.killed(label)
        assert len(set(made.world.of("effect"))) == len(made.world.of("effect"))
    runs.ends_as_if_never_killed(made, one(SIDE_EFFECT, "verify"))

    assert ["t1", "t2"] == made.world.of("effect")
