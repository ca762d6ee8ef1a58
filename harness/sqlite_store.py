"""The sqlite store: `state.sqlite3`, for long tasks. A save appends what is new, so its cost does not grow.

Checkpoint and ledger share one database in WAL mode with synchronous=FULL: each save is one transaction. A new
database is built in memory and put in place as a whole file, so an empty or half-made one is always damage. Each row
carries a hash of itself. Merely opening a database changes it, so it is examined in a private copy.

A killed process leaves its latest commits in the log, `state.sqlite3-wal`. sqlite takes a log that is gone, cut short
or damaged for one whose last commits never happened, and rolls back without a word. The index of the log, which a kill
leaves too, says how many pages were committed: a log with fewer is refused.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from harness import durable
from harness.checkpoint import VERSION, Checkpoint, Message
from harness.crash import crash_point
from harness.errors import StateDamaged, StateForeign, StateIncomplete, StateRefused, StateVersion, WriteFailed
from harness.ledger import BadLedger, Entry, Ledger, decode_entry
from harness.store import LASTING_FILES, START_AFRESH, Store, exists

_APPLICATION_ID = 0x48524E53  # "HRNS"
_SCHEMA = """
CREATE TABLE scene (key TEXT PRIMARY KEY, body TEXT NOT NULL, sha256 TEXT NOT NULL);
CREATE TABLE messages (key INTEGER PRIMARY KEY, body TEXT NOT NULL, sha256 TEXT NOT NULL);
CREATE TABLE calls (key TEXT PRIMARY KEY, body TEXT NOT NULL, sha256 TEXT NOT NULL);
"""
# What never changes after the start has a row of its own, so that a save does not write the tools again.
_FIXED = ("run_id", "task", "prefix", "started_marks")


class SqliteStore(Store):
    """A run in one database."""

    kind = "sqlite"
    _connection: sqlite3.Connection | None = None
    _saved: int  # messages that are in the database, once it is open

    def read(self) -> tuple[Checkpoint, Ledger]:
        index = _read_index(self._file("-shm"))  # before the log, which a live owner may add to meanwhile
        with self._examine() as connection:
            try:
                return self._decode_all(connection, index)
            except sqlite3.Error as cause:
                raise StateDamaged(self.checkpoint_path, f"is damaged ({cause})", START_AFRESH) from cause

    def load(self) -> tuple[Checkpoint, Ledger]:
        checkpoint, ledger = self.read()
        self.settle()
        self._open(len(checkpoint.messages))
        return checkpoint, ledger

    def create(self, checkpoint: Checkpoint) -> None:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
            memory.executescript(_SCHEMA)
            memory.execute(f"PRAGMA application_id={_APPLICATION_ID}")
            memory.execute(f"PRAGMA user_version={VERSION}")
            _put_scene(memory, checkpoint, saved=0, fixed=True)
            data = memory.serialize()
        durable.replace(self.checkpoint_path, data, "start")
        self._open(len(checkpoint.messages))

    def save(self, checkpoint: Checkpoint, write: str) -> None:
        with self._transaction(write) as connection:
            _put_scene(connection, checkpoint, saved=self._saved, fixed=False)
        self._saved = len(checkpoint.messages)

    def record(self, ledger: Ledger, entry: Entry, write: str) -> None:
        with self._transaction(write) as connection:
            _put(connection, "calls", entry.tool_use_id, entry.to_json())
            # A row that is not there is evidence, so how many there are is written down as well.
            _put(connection, "scene", "calls", connection.execute("SELECT max(rowid) FROM calls").fetchone()[0])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self, saved: int) -> None:
        try:
            self.close()
            self._connection = sqlite3.connect(self.checkpoint_path, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
        except sqlite3.Error as cause:
            raise WriteFailed(self.checkpoint_path, "open", cause) from cause
        self._saved = saved

    @contextmanager
    def _transaction(self, write: str) -> Iterator[sqlite3.Connection]:
        """One durable write. Whatever interrupts it, the database is as before or holds all of it."""
        if self._connection is None:
            raise WriteFailed(self.checkpoint_path, write, RuntimeError("the store is not open: load or start first"))
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                crash_point(f"{write}.before-commit")
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    with suppress(sqlite3.Error):  # closing the connection rolls back as well
                        self._connection.execute("ROLLBACK")
        except sqlite3.Error as cause:
            raise WriteFailed(self.checkpoint_path, write, cause) from cause
        crash_point(f"{write}.after-commit")

    @contextmanager
    def _examine(self) -> Iterator[sqlite3.Connection]:
        """The database as a private copy. Raises `StateMissing` or another `StateRefused`."""
        if not exists(self.checkpoint_path):
            self._refuse_without_database()
        with ExitStack() as stack:
            try:
                private = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="harness-")))
                for name in LASTING_FILES[self.kind]:
                    if exists(self.directory / name):
                        shutil.copyfile(self.directory / name, private / name)
            except OSError as cause:
                problem, remedy = f"cannot be copied to be examined: {cause}", "check permissions and free space"
                raise StateRefused(self.checkpoint_path, problem, remedy) from cause
            yield stack.enter_context(closing(sqlite3.connect(private / self.checkpoint_path.name)))

    def _refuse_without_database(self) -> NoReturn:
        """Nothing had run if there is none of its files, or if a fresh start was moving them away."""
        self.check_kind()
        if self.being_set_aside():
            raise self.missing("a fresh start died while it set the earlier run aside")
        left = [name for name in LASTING_FILES[self.kind] if exists(self.directory / name)]
        if not left:
            raise self.missing("there is no database")
        raise StateIncomplete(
            self.checkpoint_path, f"the database of this run is missing beside its {left[0]}", START_AFRESH
        )

    def _decode_all(self, connection: sqlite3.Connection, index: _LogIndex | None) -> tuple[Checkpoint, Ledger]:
        connection.execute("PRAGMA synchronous=OFF")  # nobody needs the copy
        # Not quick_check, which does not look at the indexes that decide whether a row is new.
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            raise sqlite3.DatabaseError("its integrity check fails")
        if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
            raise self._not_ours(connection)
        if (found := connection.execute("PRAGMA user_version").fetchone()[0]) != VERSION:
            problem = f"is of version {found}, this release reads {VERSION}"
            raise StateVersion(self.checkpoint_path, problem, "use the release it is of")
        if index is not None:
            self._check_log(connection, index)
        scene = dict(_rows(connection, "scene"))
        parts = scene.get("fixed"), scene.get("moving")
        if scene.keys() != {"fixed", "moving", "calls"} or not all(isinstance(part, dict) for part in parts):
            raise sqlite3.DatabaseError("its scene is not whole")
        head = scene["fixed"] | scene["moving"]
        messages, calls = list(_rows(connection, "messages")), list(_rows(connection, "calls"))
        if len(messages) != head.pop("messages", None) or [n for n, _ in messages] != list(range(len(messages))):
            raise sqlite3.DatabaseError("messages are missing")
        if len(calls) != scene["calls"]:
            raise sqlite3.DatabaseError("calls are missing")
        try:
            entries = {key: decode_entry(key, body) for key, body in calls}
        except BadLedger as cause:
            raise StateDamaged(self.checkpoint_path, str(cause), START_AFRESH) from cause
        ledger = Ledger(str(head.get("run_id")), entries)
        return self.decode(head, [body for _, body in messages], ledger), ledger

    def _check_log(self, connection: sqlite3.Connection, index: _LogIndex) -> None:
        """Refuse a log with less in it than was committed. Raises `StateDamaged`."""
        with suppress(OSError), self._file("-wal").open("rb") as log:
            header = log.read(_LOG_SALTS.stop)
            # After a loss of power the index may be of an earlier log in the same file, which says nothing of this one.
            if header.startswith(_LOG_MAGIC) and header[_LOG_SALTS] != index.salts:
                return
        pages = max(0, connection.execute("PRAGMA wal_checkpoint").fetchone()[1])
        if pages < index.pages:
            problem = f"is damaged or gone: of {index.pages} pages that were committed to it {pages} are left"
            raise StateDamaged(self._file("-wal"), problem, START_AFRESH)

    def _file(self, suffix: str) -> Path:
        return self.checkpoint_path.with_name(self.checkpoint_path.name + suffix)

    def _not_ours(self, connection: sqlite3.Connection) -> StateRefused:
        if self.checkpoint_path.stat().st_size == 0:
            return StateDamaged(self.checkpoint_path, "is empty", START_AFRESH)
        return StateForeign(self.checkpoint_path, "is not a database of a run", "move it away")


@dataclass(frozen=True, slots=True)
class _LogIndex:
    """What the index of a log (`-shm`) says of it: how many pages are committed, and the salts of the log's header."""

    pages: int
    salts: bytes


# https://www.sqlite.org/walformat.html: the header of the index is there twice, and differs while it is written.
_INDEX_HEADER, _INDEX_IS_SET, _INDEX_SALTS = 48, 12, slice(32, 40)
_LOG_MAGIC, _LOG_SALTS = b"\x37\x7f\x06", slice(16, 24)


def _read_index(path: Path) -> _LogIndex | None:
    """None if there is no index to go by: after a clean end, or a loss of power."""
    try:
        with path.open("rb") as file:
            header, again = file.read(_INDEX_HEADER), file.read(_INDEX_HEADER)
    except OSError:
        return None
    if len(again) < _INDEX_HEADER or header != again or not header[_INDEX_IS_SET]:
        return None
    return _LogIndex(struct.unpack_from("=I", header, 16)[0], header[_INDEX_SALTS])


def _put_scene(connection: sqlite3.Connection, checkpoint: Checkpoint, *, saved: int, fixed: bool) -> None:
    head = checkpoint.head()
    fixed_part = {name: head.pop(name) for name in _FIXED}
    if fixed:
        _put(connection, "scene", "fixed", fixed_part)
        _put(connection, "scene", "calls", 0)
    new: list[Message] = checkpoint.messages[saved:]
    for position, message in enumerate(new, start=saved):
        _put(connection, "messages", position, message)
    _put(connection, "scene", "moving", head | {"messages": len(checkpoint.messages)})


def _put(connection: sqlite3.Connection, table: str, key: str | int, value: Any) -> None:
    body = json.dumps(value, ensure_ascii=False)
    row = (key, body, _row_sha256(table, key, body))
    update = "ON CONFLICT (key) DO UPDATE SET body = excluded.body, sha256 = excluded.sha256"
    connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?) {update}", row)


def _rows(connection: sqlite3.Connection, table: str) -> Iterator[tuple[Any, Any]]:
    """Key and value of each row, in order of insertion. Raises `sqlite3.DatabaseError` for a row that changed."""
    for key, body, sha256 in connection.execute(f"SELECT key, body, sha256 FROM {table} ORDER BY rowid"):
        if not isinstance(body, str) or sha256 != _row_sha256(table, key, body):
            raise sqlite3.DatabaseError(f"row {key!r} of {table} is not as it was written")
        yield key, json.loads(body)


def _row_sha256(table: str, key: str | int, body: str) -> str:
    return hashlib.sha256(f"{table}\0{key}\0{body}".encode()).hexdigest()
