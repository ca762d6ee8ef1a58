"""State that cannot be trusted is refused, by both stores and in particular by the json store, and left as it is."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crashtests.unit import states
from crashtests.unit.bodies import call, result
from crashtests.unit.refusals import missing, refused, resumed
from crashtests.unit.scenes import STORES
from harness import (
    JsonStore,
    StateDamaged,
    StateForeign,
    StateIncomplete,
    StateRefused,
    StateVersion,
    Store,
    UsageError,
    ledger,
)
from harness.ledger import Entry, Ledger


@pytest.fixture
def saved(fast_path: Path) -> JsonStore:
    """The sample in a json store."""
    store = JsonStore(fast_path / "state")
    states.sample(store)
    return store


def test_there_is_no_run_where_nobody_started_one(store: Store) -> None:
    """No directory, or an empty one, is not damage; nothing is made by looking."""
    missing(store, "there is no")
    store.directory.mkdir()
    missing(store, "there is no")


def test_a_file_in_the_place_of_the_directory_is_refused(store: Store) -> None:
    """A state directory that is a file is wrong usage for who would own it, and refused to who reads it."""
    store.directory.write_text("not a directory")

    with states.nothing_changes(store.directory.parent):
        for resume in (True, False):
            with pytest.raises(UsageError, match="is not a directory"):
                resumed(store, resume)
        with pytest.raises(StateRefused, match=str(store.directory)):
            store.read()


BLOBS = {
    "empty": b"",
    "nul": b"\0" * 4096,
    "garbage": bytes(range(255, 0, -1)) * 20,
    "text": b"hello\n",
    "json": b'{"format": "another", "version": 1}\n',
    "array": b"[1, 2]\n",
    "deep": b"[" * 100_000,
    "nan": b'{"format": NaN}',
    "long-number": b"9" * 5000,
}


@pytest.mark.parametrize("blob", BLOBS)
def test_a_file_of_something_else_is_refused(blob: str, store: Store) -> None:
    """Whatever stands in the place of a file of ours, it is called damaged or foreign, and nothing else goes wrong."""
    states.sample(store)
    names = ["checkpoint.json", "effects.json"] if isinstance(store, JsonStore) else ["state.sqlite3"]
    for name in names:
        path = store.directory / name
        before = path.read_bytes()
        path.write_bytes(BLOBS[blob])
        foreign = isinstance(store, JsonStore) and blob in ("json", "array")

        refused(store, StateForeign if foreign else StateDamaged, path)
        path.write_bytes(before)

    assert 2 == store.read()[0].turns


def test_a_directory_in_the_place_of_a_file_is_refused(store: Store) -> None:
    """A file of ours that has become a directory cannot be read, which is said of that file."""
    states.sample(store)
    store.checkpoint_path.unlink()
    store.checkpoint_path.mkdir()

    refused(store, StateRefused, store.checkpoint_path, "cannot be")


@contextmanager
def another_user() -> Iterator[None]:
    """Not root, to whom no permission is denied."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("what", ["parent", "directory", "search", "files"])
@pytest.mark.parametrize("kind", STORES)
def test_what_may_not_be_read_is_refused(kind: str, what: str, fast_path: Path) -> None:
    """A permission that is missing anywhere on the way is not taken for a run that is missing."""
    store = STORES[kind](fast_path / "parent" / "state")
    states.sample(store)
    for path in (fast_path, store.directory.parent, store.directory):
        path.chmod(0o755)
    closed = {
        "parent": {store.directory.parent: 0o000},
        "directory": {store.directory: 0o000},
        "search": {store.directory: 0o444},
        "files": dict.fromkeys(store.directory.iterdir(), 0o000),
    }[what]
    for path, mode in closed.items():
        path.chmod(mode)
    try:
        with another_user():
            for look in (store.read, lambda: resumed(store, True), lambda: resumed(store, "or-start")):
                with pytest.raises(StateRefused, match="check") as refusal:
                    look()
                assert StateRefused is type(refusal.value)
    finally:
        for path in closed:
            path.chmod(0o755)


# What is on disk after a careless or malicious edit that left the hash right: the scene itself must make sense.
def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Edit a json file and put the right hash before it."""
    value = json.loads(path.read_bytes())
    del value["sha256"]
    change(value)
    rest = json.dumps(value, indent=2, ensure_ascii=False).encode()[2:] + b"\n"
    path.write_bytes(b'{\n  "sha256": "%s",\n%s' % (hashlib.sha256(rest).hexdigest().encode(), rest))


def test_a_rewritten_file_that_makes_sense_is_read(saved: JsonStore) -> None:
    """The tests below rewrite files; that alone is not what they are refused for."""
    before = states.as_json(*saved.read())
    for path in (saved.checkpoint_path, saved.ledger_path):
        rewrite(path, lambda value: None)

    assert before == states.as_json(*saved.read())


SCENES: dict[str, tuple[Callable[[dict[str, Any]], object], type[StateRefused], str]] = {
    "newer": (lambda v: v.update(version=2), StateVersion, "is of version 2, this release reads 1"),
    "no-version": (lambda v: v.pop("version"), StateVersion, "is of version None"),
    "no-format": (lambda v: v.pop("format"), StateForeign, "is not a harness-checkpoint file"),
    "field-missing": (lambda v: v.pop("task"), StateDamaged, "field 'task' is 'missing'"),
    "field-type": (lambda v: v.update(turns="2"), StateDamaged, "field 'turns' is '2'"),
    "field-bool": (lambda v: v.update(tokens_used=True), StateDamaged, "field 'tokens_used' is True"),
    "field-unknown": (lambda v: v.update(more=1), StateDamaged, "unknown field 'more'"),
    "status": (lambda v: v.update(status="fine"), StateDamaged, "status 'fine' is none of running"),
    "turns": (lambda v: v.update(turns=1), StateDamaged, "turns is 1"),
    "no-messages": (lambda v: v.pop("messages"), StateDamaged, "not a checkpoint"),
    "messages-empty": (lambda v: v["messages"].clear(), StateDamaged, "not a conversation"),
    "message-lost": (lambda v: v["messages"].pop(2), StateDamaged, "calls ['t1'] are answered by []"),
    "result-orphan": (lambda v: v["messages"].pop(1), StateDamaged, "calls [] are answered by ['t1']"),
    "last-message-lost": (lambda v: v["messages"].pop(), StateDamaged, "3 calls are pending"),
    "pending-lost": (lambda v: v["pending"].pop(), StateDamaged, "2 calls are pending"),
    "pending-other": (lambda v: v["pending"].reverse(), StateDamaged, "pending call 't4' is not the last"),
    "pending-effect": (lambda v: v["pending"][0].update(effect="harmless"), StateDamaged, "effect class 'harmless'"),
    "pending-shape": (lambda v: v["pending"][0].update(more=1), StateDamaged, "is not one"),
    "id-twice": (lambda v: v["messages"][3]["content"].append(call("t2")), StateDamaged, "was used before"),
    "id-again": (lambda v: v["messages"][3]["content"].append(call("t1")), StateDamaged, "was used before"),
    "result-twice": (
        lambda v: v["messages"][2]["content"].append(result("t1", "again")),
        StateDamaged,
        "answered by ['t1', 't1']",
    ),
}


@pytest.mark.parametrize("scene", SCENES)
def test_a_checkpoint_that_contradicts_itself_is_refused(scene: str, saved: JsonStore) -> None:
    """A scene that this harness cannot have written is refused, however well its file is made."""
    change, kind, words = SCENES[scene]
    rewrite(saved.checkpoint_path, change)

    refused(saved, kind, saved.checkpoint_path, words)


LEDGERS: dict[str, tuple[Callable[[dict[str, Any]], object], type[StateRefused], str]] = {
    "newer": (lambda v: v.update(version=2), StateVersion, "is of version 2"),
    "checkpoint": (lambda v: v.update(format="harness-checkpoint"), StateForeign, "is not a harness-effects file"),
    "no-calls": (lambda v: v.pop("calls"), StateDamaged, "not a ledger"),
    "no-run": (lambda v: v.update(run_id=None), StateDamaged, "not a ledger"),
    "more": (lambda v: v.update(more=1), StateDamaged, "not a ledger"),
    "state": (lambda v: v["calls"]["t1"].update(state="perhaps"), StateDamaged, "entry 't1' is {"),
    "no-outcome": (lambda v: v["calls"]["t1"].pop("outcome"), StateDamaged, "entry 't1' is {"),
    "empty-outcome": (lambda v: v["calls"]["t1"]["outcome"].update(content=""), StateDamaged, "entry 't1' is {"),
    "is-error": (lambda v: v["calls"]["t1"]["outcome"].update(is_error=0), StateDamaged, "entry 't1' is {"),
    "settled": (lambda v: v["calls"]["t1"].update(settled="magic"), StateDamaged, "entry 't1' is {"),
    "not-an-entry": (lambda v: v["calls"].update(t1=[1]), StateDamaged, "entry 't1' is [1]"),
    "tool": (lambda v: v["calls"]["t3"].update(name="other"), StateDamaged, "of tool 'other', the call of 'act'"),
    "input": (lambda v: v["calls"]["t3"].update(input_sha256="0"), StateDamaged, "'t3' is of another input"),
    "call": (lambda v: v["calls"].update(t9=v["calls"]["t3"]), StateDamaged, "'t9' is of a call that no message"),
}


@pytest.mark.parametrize("name", LEDGERS)
def test_a_ledger_that_does_not_fit_is_refused(name: str, saved: JsonStore) -> None:
    """A ledger is evidence: one that is not the calls' own is refused, in its own name."""
    change, kind, words = LEDGERS[name]
    rewrite(saved.ledger_path, change)

    refused(saved, kind, saved.ledger_path, words)


def test_half_of_a_pair_is_refused(saved: JsonStore) -> None:
    """Without its ledger a checkpoint proves nothing, and a ledger with entries has lost its checkpoint."""
    for path in (saved.ledger_path, saved.checkpoint_path):
        before = path.read_bytes()
        path.unlink()
        refused(saved, StateIncomplete, path, "is missing")
        path.write_bytes(before)


def test_a_start_that_died_before_its_scene_had_run_nothing(saved: JsonStore) -> None:
    """An empty ledger alone is what a start leaves that died between its two files: there is no run."""
    saved.checkpoint_path.unlink()
    rewrite(saved.ledger_path, lambda value: value["calls"].clear())

    missing(saved, "nothing was run")


def test_the_entry_of_another_call_is_refused(store: Store) -> None:
    """In both stores an entry is held against the call it names: tool, input, and that there is such a call."""
    _, known = states.sample(store)
    entry = known.entries["t2"]
    wrong: list[tuple[Entry, str]] = [
        (replace(entry, name="other"), "is of tool 'other', the call of 'act'"),
        (replace(entry, input_sha256=ledger.input_sha256({"n": 1})), "is of another input"),
        (replace(entry, tool_use_id="t9"), "'t9' is of a call that no message makes"),
    ]
    for number, (other, words) in enumerate(wrong):
        copy = type(store)(store.directory.with_name(f"copy-{number}"))
        shutil.copytree(store.directory, copy.directory)
        with copy.owned(create=False):
            copy.load()
            copy.record(Ledger(known.run_id, known.entries | {other.tool_use_id: other}), other, "effect")
        where = copy.ledger_path if isinstance(copy, JsonStore) else copy.checkpoint_path

        refused(copy, StateDamaged, where, words)
