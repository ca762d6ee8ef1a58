"""A glance at a run that somebody else may own: what was read counts only if nothing was written meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from crashtests.unit import states
from crashtests.unit.states import as_json
from harness import JsonStore, StateDamaged, StateHeld, StateMissing
from harness import store as store_module
from harness.checkpoint import Checkpoint
from harness.ledger import Ledger


class Shared(JsonStore):
    """A store in which somebody else does something (`meanwhile`, given how often was read) during each read."""

    def __init__(self, directory: Path, meanwhile: Callable[[int], None]) -> None:
        super().__init__(directory)
        self.reads = 0
        self._meanwhile = meanwhile

    def read(self) -> tuple[Checkpoint, Ledger]:
        try:
            return super().read()
        finally:
            self.reads += 1
            self._meanwhile(self.reads)


@pytest.fixture
def saved(fast_path: Path) -> JsonStore:
    """A store that holds the sample."""
    store = JsonStore(fast_path / "state")
    states.sample(store)
    return store


def test_a_write_meanwhile(saved: JsonStore) -> None:
    """What was read before a save is read again, and what is returned is the later."""
    scene, _ = saved.read()
    scene.tokens_used += 1

    def save_once(reads: int) -> None:
        if reads == 1:
            saved.save(scene, "save-a")

    shared = Shared(saved.directory, save_once)

    assert scene.tokens_used == shared.glance()[0].tokens_used
    assert 2 == shared.reads


def test_a_refusal_meanwhile(saved: JsonStore) -> None:
    """A half of two states is no damage: only what can be read twice is refused."""
    whole, before = saved.checkpoint_path.read_bytes(), as_json(*saved.read())
    saved.checkpoint_path.write_bytes(whole[:-1])

    def mend_once(reads: int) -> None:
        if reads == 1:
            saved.checkpoint_path.write_bytes(whole)

    assert before == as_json(*Shared(saved.directory, mend_once).glance())

    saved.checkpoint_path.write_bytes(whole[:-1])
    with pytest.raises(StateDamaged):
        saved.glance()


def test_a_file_that_comes_meanwhile(saved: JsonStore) -> None:
    """That a file was not there is no evidence if it is there now."""
    checkpoint = saved.checkpoint_path.read_bytes()
    saved.checkpoint_path.unlink()
    saved.ledger_path.rename(saved.directory / "elsewhere")

    def start(reads: int) -> None:
        if reads == 1:
            (saved.directory / "elsewhere").rename(saved.ledger_path)
            saved.checkpoint_path.write_bytes(checkpoint)

    shared = Shared(saved.directory, start)

    assert as_json(*shared.glance()) == as_json(*saved.read())
    with pytest.raises(StateMissing):
        JsonStore(saved.directory / "nothing").glance()


def test_a_writer_that_never_rests(saved: JsonStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A glance ends, and says that it has seen nothing that counts."""
    monkeypatch.setattr(store_module, "_GLANCES_MAX", 3)
    scene, _ = saved.read()
    shared = Shared(saved.directory, lambda reads: saved.save(scene, "save-a"))

    with pytest.raises(StateHeld, match="writes faster than this can read"):
        shared.glance()
    assert 3 == shared.reads
