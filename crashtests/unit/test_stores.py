"""The contract of a store, held by each: what is saved comes back value for value, to one owner, and stays private."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crashtests.unit import states
from crashtests.unit.bodies import call, result
from crashtests.unit.scenes import STORES
from crashtests.unit.states import as_json
from harness import JsonStore, SqliteStore, StateForeign, Store, WriteFailed, json_store, ledger, sqlite_store
from harness.ledger import BadLedger, Ledger, Settled
from harness.outcome import Outcome
from harness.store import STORE_FILES


def seen_by_another(store: Store) -> str:
    """What a process that comes later would load."""
    return as_json(*type(store)(store.directory).read())


# JSON values as they come off the wire: no NaN, no lone surrogates.
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _text
_values = st.recursive(_scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3))
_objects = st.dictionaries(_text, _values, max_size=3)
_blocks = st.sampled_from([states.THINKING, states.REDACTED, states.UNHEARD_OF]) | _objects.map(
    lambda fields: fields | {"type": "unheard_of"}
)
_outcomes = st.builds(
    Outcome,
    st.sampled_from(["0", "null", "false", "\x00", " "])
    | _text.filter(bool)
    | st.lists(_blocks, min_size=1, max_size=2),
    st.booleans(),
)
# A turn: blocks before its calls, and for each call its input, the outcome, and whether a mark came first.
_turns = st.tuples(st.lists(_blocks, max_size=2), st.lists(st.tuples(_objects, _outcomes, st.booleans()), max_size=2))


def play(store: Store, turns: list[Any]) -> None:
    """Save `turns` as a run would, and look at the disk between the writes."""
    scene = states.begun()
    known = Ledger(scene.run_id)
    store.start(scene)
    for number, (blocks, calls) in enumerate(turns):
        made = [call(f"t{number}-{i}") | {"input": arguments} for i, (arguments, _, _) in enumerate(calls)]
        states.save_turn(store, scene, {"role": "assistant", "content": [*blocks, *made]})
        assert as_json(scene, known) == seen_by_another(store)
        for made_call, (_, outcome, marked) in zip(scene.pending, calls, strict=True):
            if marked:
                states.record(store, known, ledger.started(made_call))
            states.record(store, known, ledger.finished(made_call, outcome, Settled.RUN))
        assert as_json(scene, known) == seen_by_another(store)
        if calls:  # a turn without calls has paused, and nothing answers it
            answers = [result(block["id"], outcome.content) for block, (_, outcome, _) in zip(made, calls, strict=True)]
            states.save_answer(store, scene, {"role": "user", "content": answers})
            assert as_json(scene, known) == seen_by_another(store)


@pytest.mark.parametrize("kind", STORES)
@settings(max_examples=20, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=st.lists(_turns, max_size=2))
def test_what_is_saved_comes_back_value_for_value(kind: str, fast_path: Path, turns: list[Any]) -> None:
    """Whatever JSON a turn, an input or an outcome holds, every write is followed by a load that equals it."""
    with tempfile.TemporaryDirectory(dir=fast_path) as directory:
        store = STORES[kind](Path(directory))
        with store.owned(create=False):
            play(store, turns)
        if isinstance(store, JsonStore):
            assert_laid_out_for_a_reader(store.checkpoint_path)
            assert_laid_out_for_a_reader(store.ledger_path)


def assert_laid_out_for_a_reader(path: Path) -> None:
    """The file is what json.dumps(indent=2) makes of its own value, though its text is made piece by piece."""
    written = path.read_bytes().decode()
    assert json.dumps(json.loads(written), indent=2, ensure_ascii=False) + "\n" == written


def test_the_sample_comes_back_in_another_life(store: Store) -> None:
    """A store that loads goes on from there: what it saves next extends what the life before left."""
    states.sample(store)
    later = type(store)(store.directory)

    with later.owned(create=False):
        scene, known = later.load()
        states.record(later, known, ledger.finished(scene.pending[1], Outcome("late"), Settled.VERIFIED))
        answers = [result(c.tool_use_id, "late") for c in scene.pending]
        states.save_answer(later, scene, {"role": "user", "content": answers})

    assert as_json(scene, known) == seen_by_another(store)


def test_a_resume_makes_durable_what_it_found(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can be read may be in the page cache only: it is synced, with its names, before anybody acts on it."""
    states.sample(store)
    files = [store.directory / name for name in STORE_FILES[store.kind] if not name.endswith("-shm")]
    for file in files:
        file.touch()
    found = {os.stat(path).st_ino for path in (*files, store.directory)}
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))

    with store.owned(create=False):
        store.load()

    assert found == set(synced)


def test_a_store_can_serve_one_run_after_the_other(store: Store) -> None:
    """What a store remembers of the texts of one run never gets into the next."""
    states.sample(store)
    other = states.begun("run-2", task="Other", messages=[{"role": "user", "content": "Other"}])

    with store.owned(create=False):
        store.start(other)

    assert as_json(other, Ledger("run-2")) == seen_by_another(store)


def test_sqlite_writes_only_what_is_new(fast_path: Path) -> None:
    """A turn changes as many rows of the database when it is the fiftieth as when it is the second."""
    store = SqliteStore(fast_path)
    changes = []
    with store.owned(create=False):
        scene = states.begun()
        known = Ledger(scene.run_id)
        store.start(scene)
        for number in range(50):
            before = _total_changes(store)
            states.save_turn(store, scene, {"role": "assistant", "content": [call(f"t{number}")]})
            states.record(store, known, ledger.started(scene.pending[0]))
            states.record(store, known, ledger.finished(scene.pending[0], Outcome("ok"), Settled.RUN))
            states.save_answer(store, scene, {"role": "user", "content": [result(f"t{number}", "ok")]})
            changes.append(_total_changes(store) - before)

    assert {changes[0]} == set(changes)
    assert changes[0] <= 8
    assert as_json(scene, known) == seen_by_another(store)


def _total_changes(store: SqliteStore) -> int:
    assert store._connection is not None
    return store._connection.total_changes


def test_a_started_call_is_finished_in_its_place(store: Store) -> None:
    """Finishing a call replaces its mark: one entry per call, in the order in which the calls began."""
    states.sample(store)

    with store.owned(create=False):
        scene, known = store.load()
        states.record(store, known, ledger.started(scene.pending[2]))
        states.record(store, known, ledger.finished(scene.pending[1], Outcome("done"), Settled.RUN))
    _, later = type(store)(store.directory).read()

    assert ["t1", "t2", "t3", "t4"] == list(later.entries)
    assert [True, True, True, False] == [entry.finished for entry in later.entries.values()]


def test_a_finished_call_is_never_overwritten(store: Store) -> None:
    """Neither another outcome nor a mark gets into the ledger over an outcome, and the disk keeps what it had."""
    states.sample(store)

    with store.owned(create=False):
        scene, known = store.load()
        finished = scene.pending[0]
        with pytest.raises(BadLedger, match="'t2' has finished already"):
            known.put(ledger.finished(finished, Outcome("other"), Settled.RUN))
        with pytest.raises(BadLedger, match="'t2' has finished already"):
            known.put(ledger.started(finished))

        assert as_json(scene, known) == seen_by_another(store)


def test_files_are_private_to_the_user(store: Store) -> None:
    """Whatever the umask, files are 0600 and the directories that are made for them 0700."""
    umask = os.umask(0)
    try:
        states.sample(store)
        with store.owned(create=False):
            store.start(states.begun("run-2"))
            states.save_turn(store, states.begun("run-2"), states.FIRST_TURN[0])
            modes = {p: stat.S_IMODE(p.stat().st_mode) for p in (store.directory, *store.directory.rglob("*"))}
    finally:
        os.umask(umask)

    assert {p: 0o700 if p.is_dir() else 0o600 for p in modes} == modes
    assert len(modes) >= 5


def test_the_run_id_ties_checkpoint_and_ledger(fast_path: Path) -> None:
    """A ledger beside the checkpoint of another run is refused by both ids."""
    for run_id in ("run-1", "run-2"):
        store = JsonStore(fast_path / run_id)
        with store.owned(create=True):
            store.start(states.begun(run_id))
    os.replace(fast_path / "run-2" / "effects.json", fast_path / "run-1" / "effects.json")

    with pytest.raises(StateForeign, match="ledger of run run-2, checkpoint of run run-1"):
        JsonStore(fast_path / "run-1").read()


def test_a_store_that_was_not_opened_writes_nothing(fast_path: Path) -> None:
    """A save before load or start, or after the run was let go of, is an error that says so."""
    with pytest.raises(WriteFailed, match="load or start first"):
        SqliteStore(fast_path).save(states.begun(), "save-a")
    store = SqliteStore(fast_path / "state")
    scene, _ = states.sample(store)
    with pytest.raises(WriteFailed, match="load or start first"):
        store.save(scene, "save-a")


def test_opening_again_lets_go_of_the_database_that_was_open(fast_path: Path) -> None:
    """It is closed then, not when somebody collects it: a late close would remove the log of the one now open."""
    store = SqliteStore(fast_path / "state")
    with store.owned(create=True):
        store.start(states.begun())
        first = store._connection
        assert first is not None
        store.load()

        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            first.execute("SELECT 1")


def test_a_write_that_is_interrupted_has_not_begun(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C right before a commit leaves the database as it was, and open for the next write."""
    store = SqliteStore(fast_path / "state")
    with store.owned(create=True):
        scene, known = states.save_sample(store)
        before = as_json(scene, known)
        with monkeypatch.context() as interrupting:

            def interrupt(label: str) -> None:
                raise KeyboardInterrupt(label)

            interrupting.setattr(sqlite_store, "crash_point", interrupt)
            with pytest.raises(KeyboardInterrupt, match=r"^effect\.before-commit$"):
                store.record(known, ledger.finished(scene.pending[1], Outcome("done"), Settled.RUN), "effect")

        assert before == seen_by_another(store)
        states.record(store, known, ledger.started(scene.pending[2]))
        assert as_json(scene, known) == seen_by_another(store)


def test_json_makes_the_text_of_a_value_once(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has been saved before is written again, but its text is not made again: that is most of a save's cost."""
    made: list[object] = []

    def indented(value: object) -> str:
        made.append(value)
        return json.dumps(value)

    monkeypatch.setattr(json_store, "_indented", indented)
    store = JsonStore(fast_path / "state")
    with store.owned(create=True):
        scene, _ = states.save_sample(store)
        made.clear()
        store.save(scene, "save-a")

    assert [] == [value for value in made if value in scene.messages]
    assert scene.head()["pending"] in made  # made anew for each save, so it is another value
