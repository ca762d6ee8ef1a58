"""Damage to the database of the sqlite store.

The database itself is held against damage at any place, and its write-ahead log as long as the index of the log is
there, as a kill leaves it. Without one, as after a loss of power, sqlite takes a log that is cut short, or wrong from
some point on, for one whose last commits never happened. What then loads is a state that the run was in earlier, as
after a crash before those commits, or nothing does.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from crashtests.unit import states
from crashtests.unit.refusals import refused
from harness import SqliteStore, StateDamaged, StateForeign, StateRefused, StateVersion, sqlite_store
from harness.checkpoint import Checkpoint
from harness.ledger import Entry, Ledger


@pytest.fixture
def saved(fast_path: Path) -> SqliteStore:
    """The sample in a database that was closed in peace, so that it has no log."""
    store = SqliteStore(fast_path / "state")
    states.sample(store)
    assert ["state.sqlite3"] == [p.name for p in store.directory.iterdir()]
    return store


EDITS = {
    "scene-table": ("DROP TABLE scene", StateDamaged, "no such table: scene"),
    "messages-table": ("DROP TABLE messages", StateDamaged, "no such table: messages"),
    "calls-table": ("DROP TABLE calls", StateDamaged, "no such table: calls"),
    "column": ("ALTER TABLE calls RENAME COLUMN body TO text", StateDamaged, "no such column: body"),
    "scene-row": ("DELETE FROM scene WHERE key = 'fixed'", StateDamaged, "its scene is not whole"),
    "scene-more": ("INSERT INTO scene SELECT 'x', body, sha256 FROM scene LIMIT 1", StateDamaged, "row 'x' of scene"),
    "count": ("DELETE FROM scene WHERE key = 'calls'", StateDamaged, "its scene is not whole"),
    "first-message": ("DELETE FROM messages WHERE key = 0", StateDamaged, "messages are missing"),
    "last-message": ("DELETE FROM messages WHERE key = 3", StateDamaged, "messages are missing"),
    "message-more": (
        "INSERT INTO messages SELECT 4, body, sha256 FROM messages WHERE key = 0",
        StateDamaged,
        "row 4 of messages",
    ),
    "message": ("UPDATE messages SET body = replace(body, 'will', 'shall')", StateDamaged, "row 1 of messages"),
    "message-moved": ("UPDATE messages SET key = 9 WHERE key = 3", StateDamaged, "row 9 of messages is not as it was"),
    "messages-swapped": (
        "UPDATE messages SET body = (SELECT body FROM messages WHERE key = 1) WHERE key = 3",
        StateDamaged,
        "row 3 of messages",
    ),
    "bytes": ("UPDATE messages SET body = CAST(body AS BLOB) WHERE key = 2", StateDamaged, "row 2 of messages"),
    "not-utf-8": ("UPDATE messages SET body = CAST(x'ff' AS TEXT) WHERE key = 2", StateDamaged, "is damaged"),
    "call": ("UPDATE calls SET body = replace(body, 'started', 'finish') WHERE key = 't3'", StateDamaged, "row 't3'"),
    "a-call-lost": ("DELETE FROM calls WHERE key = 't1'", StateDamaged, "calls are missing"),
    "the-last-call-lost": ("DELETE FROM calls WHERE key = 't3'", StateDamaged, "calls are missing"),
    "call-renamed": ("UPDATE calls SET key = 't4' WHERE key = 't3'", StateDamaged, "row 't4' of calls"),
    "newer": ("PRAGMA user_version = 2", StateVersion, "is of version 2, this release reads 1"),
    "other-application": ("PRAGMA application_id = 42", StateForeign, "is not a database of a run"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_database_is_refused(edit: str, saved: SqliteStore) -> None:
    """A row, table or header that is gone, added or changed is found, and what is not there is missed."""
    statement, kind, words = EDITS[edit]
    with contextlib.closing(sqlite3.connect(saved.checkpoint_path, isolation_level=None)) as connection:
        connection.execute(statement)

    refused(saved, kind, saved.checkpoint_path, words)


def test_a_rewritten_call_that_is_none_is_refused(saved: SqliteStore) -> None:
    """A row whose hash is right may still hold what no ledger says of a call."""
    body = '{"state": "dreamt"}'
    with contextlib.closing(sqlite3.connect(saved.checkpoint_path, isolation_level=None)) as connection:
        row = body, sqlite_store._row_sha256("calls", "t3", body)
        connection.execute("UPDATE calls SET body = ?, sha256 = ? WHERE key = 't3'", row)

    refused(saved, StateDamaged, saved.checkpoint_path, "entry 't3' is {'state': 'dreamt'}")


def test_the_database_of_another_application_is_refused(fast_path: Path) -> None:
    """A database that somebody else keeps under our file's name is foreign, and not touched."""
    store = SqliteStore(fast_path)
    with contextlib.closing(sqlite3.connect(store.checkpoint_path)) as connection, connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")

    refused(store, StateForeign, store.checkpoint_path, "is not a database of a run; move it away")


def test_where_no_private_copy_can_be_made_the_run_is_refused(
    saved: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full or missing place for temporary files is an error with a remedy, not a traceback."""
    monkeypatch.setattr(tempfile, "tempdir", str(saved.directory / "nowhere"))

    refused(saved, StateRefused, saved.checkpoint_path, "cannot be copied", "free space")


def load_or_refuse(store: SqliteStore) -> str | None:
    """What loads, None if it is refused with the file's name; nothing else may happen, least of all to the files."""
    refusal = None
    with states.nothing_changes(store.directory):
        try:
            return states.as_json(*store.read())
        except StateRefused as error:
            refusal = error
    assert refusal.path in (store.checkpoint_path, store.checkpoint_path.with_name("state.sqlite3-wal"))
    assert refusal.remedy in str(refusal)
    return None


def outcomes(store: SqliteStore, name: str, damaged: Iterable[bytes]) -> list[str | None]:
    """What becomes of each content of the file `name`."""
    path = store.directory / name
    found = []
    for content in damaged:
        path.write_bytes(content)
        found.append(load_or_refuse(store))
    return found


def test_a_database_cut_short_anywhere_is_refused(saved: SqliteStore) -> None:
    """At page boundaries and within pages, down to nothing."""
    whole = saved.checkpoint_path.read_bytes()
    sizes = sorted({*range(0, len(whole), 512), *range(0, 110, 9), len(whole) - 1})

    assert {None} == set(outcomes(saved, "state.sqlite3", (whole[:size] for size in sizes)))


def test_a_changed_byte_in_the_database_changes_nothing_unseen(saved: SqliteStore) -> None:
    """Where a byte matters the database is refused, and where it does not, the very same state loads."""
    whole = saved.checkpoint_path.read_bytes()
    before = states.as_json(*saved.read())
    places = [*range(0, 100, 7), *range(100, len(whole), 397)]
    flips = (whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :] for at in places)
    texts = [whole.index(text.encode()) for text in ("scripted", "I will", "tool_use", '"t2"', "finished", "0.0")]
    typos = (whole[:at] + b"#" + whole[at + 1 :] for at in texts)

    assert {before, None} == set(outcomes(saved, "state.sqlite3", flips))
    assert {None} == set(outcomes(saved, "state.sqlite3", typos))


class Remembering(SqliteStore):
    """Notes what another process would load after every write."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.history: list[str] = []

    def create(self, checkpoint: Checkpoint) -> None:
        super().create(checkpoint)
        self.history.append(states.as_json(*self.read()))

    def save(self, checkpoint: Checkpoint, write: str) -> None:
        super().save(checkpoint, write)
        self.history.append(states.as_json(*self.read()))

    def record(self, ledger: Ledger, entry: Entry, write: str) -> None:
        super().record(ledger, entry, write)
        self.history.append(states.as_json(*self.read()))


@pytest.fixture
def killed(fast_path: Path) -> tuple[SqliteStore, list[str]]:
    """The files as a kill leaves them, every commit still in the log, and the states that were saved, in order."""
    live = Remembering(fast_path / "live")
    with live.owned(create=True):
        states.save_sample(live)
        shutil.copytree(live.directory, fast_path / "killed")
    return SqliteStore(fast_path / "killed"), live.history


def sizes(whole: bytes) -> list[int]:
    return [0, 1, 31, 32, 33, *range(32 + 24, len(whole), 4120 // 2), len(whole) - 1]


def damaged(whole: bytes) -> list[bytes]:
    """Flipped bytes behind the log's own header, NULs, garbage."""
    flips = [whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :] for at in range(33, len(whole), 1999)]
    return [*flips, bytes(len(whole)), b"garbage" * 1000, whole[:32] + bytes(len(whole)), whole[:4152] + b"\xff" * 9000]


def test_a_log_that_has_lost_commits_is_refused(killed: tuple[SqliteStore, list[str]]) -> None:
    """As a kill leaves it, with its index: the whole log loads the last commit, and anything less or else nothing."""
    store, history = killed
    log = store.directory / "state.sqlite3-wal"
    whole = log.read_bytes()
    blobs = [*(whole[:size] for size in sizes(whole)), *damaged(whole)]

    assert [None] * len(blobs) == list(outcomes(store, log.name, blobs))

    log.write_bytes(whole)

    assert history[-1] == states.as_json(*store.read())

    log.unlink()

    with pytest.raises(
        StateDamaged, match=r"state\.sqlite3-wal: is damaged or gone: of \d+ pages .* 0 are left; restore"
    ):
        store.read()


def test_a_log_that_was_read_into_the_database_is_not_missed(killed: tuple[SqliteStore, list[str]]) -> None:
    """Whoever looks into a killed run's database with another program leaves no log and no index behind."""
    store, history = killed
    with contextlib.closing(sqlite3.connect(store.checkpoint_path)) as connection:
        connection.execute("SELECT count(*) FROM messages").fetchone()

    assert ["state.sqlite3"] == [path.name for path in store.directory.iterdir()]
    assert history[-1] == states.as_json(*store.read())


def test_an_index_of_an_earlier_log_says_nothing(killed: tuple[SqliteStore, list[str]]) -> None:
    """After a loss of power the index may be older than the log that it lies beside."""
    store, history = killed
    index = store.directory / "state.sqlite3-shm"
    data = bytearray(index.read_bytes())
    for header in (0, 48):
        data[header + 16 : header + 20] = (999).to_bytes(4, sys.byteorder)
        data[header + 32 : header + 40] = b"earlier."
    index.write_bytes(data)

    assert history[-1] == states.as_json(*store.read())


def test_a_log_cut_short_is_a_crash_before_its_last_commits(killed: tuple[SqliteStore, list[str]]) -> None:
    """Without an index, whatever is left of the log, what loads was true at some time; the more is left, the later."""
    store, history = killed
    (store.directory / "state.sqlite3-shm").unlink()
    whole = (store.directory / "state.sqlite3-wal").read_bytes()
    found = outcomes(store, "state.sqlite3-wal", (whole[:size] for size in [*sizes(whole), len(whole)]))
    times = [history.index(state) for state in found if state is not None]

    assert len(found) == len(times)
    assert sorted(times) == times
    assert list(range(len(history))) == sorted(set(times))


def test_a_log_with_a_wrong_byte_loads_an_earlier_state_or_none(killed: tuple[SqliteStore, list[str]]) -> None:
    """Without an index: never a state that the run was not in, and never another kind of error."""
    store, history = killed
    (store.directory / "state.sqlite3-shm").unlink()
    whole = (store.directory / "state.sqlite3-wal").read_bytes()
    flips = [whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :] for at in range(5, 32)]

    assert set(outcomes(store, "state.sqlite3-wal", [*flips, *damaged(whole)])) <= {*history, None}


def test_the_shared_memory_of_the_log_is_not_believed(killed: tuple[SqliteStore, list[str]]) -> None:
    """Whatever is in the -shm file, which a kill leaves behind, the last commit loads."""
    store, history = killed
    blobs: list[Any] = [b"", bytes(32768), b"\xff" * 32768]

    assert {history[-1]} == set(outcomes(store, "state.sqlite3-shm", blobs))
