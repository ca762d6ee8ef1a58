"""Why the checkpoints are where they are: three plausible harnesses that put them elsewhere, killed for real.

Each variant changes one thing. What then happens is shown beside what the harness does when it is killed at the same
place.
"""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest

import harness.loop
from crashtests.api import judge
from crashtests.unit.bodies import asks, call, result, says
from crashtests.unit.lives import scene_killed_here
from crashtests.unit.scenes import Scene
from crashtests.unit.world import DONE_TEXT, WorldModel
from harness import Effect, JsonStore, StateDamaged, Store, Tool
from harness.checkpoint import Call, Checkpoint
from harness.crash import crash_point
from harness.ledger import Ledger, Settled
from harness.outcome import Outcome
from harness.settle import UNKNOWN_TEXT, Settler
from harness.tool import running

SCRIPT = [asks(call("t1")), says("done")]


def scene(path: Path, store_class: type[Store], **options: Any) -> Scene:
    made = Scene(path / "run", store_class, SCRIPT, **options)
    made.tools = [made.world.tool()]
    return made


class SavesOnlyAtB(JsonStore):
    """Wrong: the scene is saved when a turn is complete, and not before its tools run."""

    def save(self, checkpoint: Checkpoint, write: str) -> None:
        if write != "save-a":
            super().save(checkpoint, write)

    def decode(self, head: object, messages: object, ledger: Ledger) -> Checkpoint:
        # Its ledger knows calls that its messages do not, which the harness takes for damage.
        return super().decode(head, messages, Ledger(ledger.run_id))


@pytest.mark.parametrize("label", ["after-tool", "after-effect-write"])
def test_saving_only_at_b_does_it_twice(fast_path: Path, label: str) -> None:
    """The turn is lost, the model is asked again and names the call anew: the best ledger does not know the new id."""
    made = scene(fast_path, SavesOnlyAtB, fresh_ids=True)
    scene_killed_here(made, label)
    made.completed()

    assert ["ask-1", "ask-2"] == made.world.of("effect")
    assert [result("ask-2", DONE_TEXT)] == made.results()


@pytest.mark.parametrize(("label", "content"), [("after-tool", UNKNOWN_TEXT), ("after-effect-write", DONE_TEXT)])
def test_saving_at_a_does_it_once(fast_path: Path, label: str, content: str) -> None:
    """Killed at the same places, the harness still has the turn and its id, and does nothing twice."""
    made = scene(fast_path, JsonStore, fresh_ids=True)
    made.killed(label)
    made.completed()

    assert ["ask-1"] == made.world.of("effect")
    assert [content] == made.contents()


def test_a_ledger_without_its_turn_is_refused(fast_path: Path) -> None:
    """The harness does not go on with what the variant leaves: a record of a call that nobody made is damage."""
    made = scene(fast_path, SavesOnlyAtB)
    scene_killed_here(made, "after-effect-write")
    made.store = JsonStore(made.store.directory)

    with pytest.raises(StateDamaged, match="of a call that no message makes"):
        made.live()


class RecordsFirst(Settler):
    """Wrong: the outcome is recorded before there is one, so that the tool cannot run twice."""

    def _run(self, call: Call, tool: Tool) -> Outcome:
        outcome = self._record(call, Outcome(DONE_TEXT), Settled.RUN)
        crash_point("recorded-not-run")
        with running(call.tool_use_id):
            tool.run(copy.deepcopy(call.input))
        return outcome


def test_recording_before_executing_tells_of_what_never_happened(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the two, a resume reports success to the model, and nothing was ever done."""
    made = scene(fast_path, JsonStore)
    monkeypatch.setattr(harness.loop, "Settler", RecordsFirst)
    scene_killed_here(made, "recorded-not-run")
    ended, _ = made.completed()

    assert [result("t1", DONE_TEXT)] == made.results()
    assert [] == made.world.of("effect")
    assert () == ended.unknowns


@pytest.mark.parametrize(("label", "effects"), [("after-started-mark", []), ("after-tool", ["t1"])])
def test_recording_after_executing_tells_that_it_is_unknown(fast_path: Path, label: str, effects: list[str]) -> None:
    """Killed on either side of the tool, the harness says that nobody knows, which is the truth."""
    made = scene(fast_path, JsonStore)
    made.killed(label)
    ended, _ = made.completed()

    assert [result("t1", UNKNOWN_TEXT, is_error=True)] == made.results()
    assert effects == made.world.of("effect")
    assert ("t1",) == ended.unknowns


class LeavesTheTurnOut(JsonStore):
    """Wrong: point A holds the pending calls, but is saved before the assistant turn is in the messages."""

    def save(self, checkpoint: Checkpoint, write: str) -> None:
        if write == "save-a":
            checkpoint = dataclasses.replace(checkpoint, messages=checkpoint.messages[:-1])
        super().save(checkpoint, write)

    def decode(self, head: Any, messages: Any, ledger: Ledger) -> Checkpoint:
        # No check that calls and messages belong together: the harness has one.
        pending = [Call(c["tool_use_id"], c["name"], Effect(c["effect"]), {}) for c in head["pending"]]
        return Checkpoint(**(head | {"pending": pending}), messages=messages)


def test_a_without_its_turn_is_refused_by_the_api(fast_path: Path) -> None:
    """The resume answers a call that is nowhere in the request: the API refuses it, and every later one too."""
    made = scene(fast_path, LeavesTheTurnOut)
    scene_killed_here(made, "after-effect-write")
    for _ in range(2):
        with pytest.raises(AssertionError, match="the API would refuse"):
            made.live()
        assert isinstance(made.model, WorldModel)
        request = made.model.requests[-1]

        assert [{"role": "user", "content": [result("t1", DONE_TEXT)]}] == request["messages"][1:]
        assert "D4" in [violation.rule for violation in judge(request)]


def test_a_with_its_turn_is_accepted(fast_path: Path) -> None:
    """Killed at the same place, the harness sends the call and its result, and comes to the end."""
    made = scene(fast_path, JsonStore)
    made.killed("after-effect-write")
    made.completed()
    assert isinstance(made.model, WorldModel)

    assert [[]] == [judge(request) for request in made.model.requests]


def test_a_without_its_turn_is_refused_by_the_harness(fast_path: Path) -> None:
    """The harness finds such a state before it sends anything."""
    made = scene(fast_path, LeavesTheTurnOut)
    scene_killed_here(made, "after-save-a")
    made.store = JsonStore(made.store.directory)

    with pytest.raises(StateDamaged, match="1 calls are pending"):
        made.live()
