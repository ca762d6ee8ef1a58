"""Hearing of syncs: every way in which Python and sqlite make something durable reaches the model, and only those."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crashtests.forkserver.client import ForkServer
from crashtests.powerloss import sqlite_syncs

# The suite's own machinery: it changes seldom, and its tests take their time.
pytestmark = pytest.mark.slow

WRITES = """
import json, os, sqlite3, sys
from pathlib import Path
from crashtests.powerloss import disk, sqlite_syncs, watch
run, store, code = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
state = run / "state"
state.mkdir()
heard, broken = [], []
def synced(_, what):
    if broken:
        raise RuntimeError("the model is broken")
    heard.append(os.path.basename(what) if isinstance(what, str) else "descriptor")
disk.Disk.synced = synced
watch.watch(run, store)
exec(code)
print(json.dumps(heard), flush=True)
os._exit(0)  # as a life does
"""


def heard(run: Path, store: str, code: str) -> list[str]:
    """What a process of its own heard of while it executed `code`."""
    command = [sys.executable, "-c", WRITES, str(run), store, code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    names: list[str] = json.loads(done.stdout)
    return names


def test_calls_of_python(tmp_path: Path) -> None:
    """fsync and fdatasync, of a number or of a file object, are heard of; writing and closing are not."""
    code = """
file = (state / "a").open("wb")
file.write(b"x")
file.flush()
os.fsync(file)
os.fdatasync(file.fileno())
file.close()
"""
    assert ["descriptor"] * 2 == heard(tmp_path, "json", code)


def test_a_sync_that_fails(tmp_path: Path) -> None:
    """A sync that raised has made nothing durable."""
    assert [] == heard(tmp_path, "json", "try: os.fsync(999)\nexcept OSError: pass")


needs_sqlite = pytest.mark.skipif(sqlite_syncs.unavailable() is not None, reason=str(sqlite_syncs.unavailable()))

OPEN = """
connection = sqlite3.connect(state / "db", isolation_level=None)
connection.execute("PRAGMA journal_mode=WAL")
connection.execute("CREATE TABLE t (a)")
heard.clear()
connection.execute("PRAGMA synchronous={level}")
connection.execute("INSERT INTO t VALUES (1)")
"""


@needs_sqlite
@pytest.mark.parametrize(("level", "expected"), [("FULL", ["db-wal"]), ("NORMAL", []), ("OFF", [])])
def test_a_commit_of_sqlite(tmp_path: Path, level: str, expected: list[str]) -> None:
    """A commit to a write-ahead log syncs it with synchronous=FULL, and does not with less."""
    assert expected == heard(tmp_path, "sqlite", OPEN.format(level=level))


@needs_sqlite
def test_a_new_log_of_sqlite(tmp_path: Path) -> None:
    """The first sync of a log that is new is one of its directory as well; a checkpoint syncs log and database."""
    code = """
connection = sqlite3.connect(state / "db", isolation_level=None)
connection.execute("PRAGMA journal_mode=WAL")
heard.clear()
connection.execute("CREATE TABLE t (a)")
heard.append("checkpoint")
connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
"""
    names = heard(tmp_path, "sqlite", code)

    assert ["state", "db-wal", "db-wal"] == names[: names.index("checkpoint")]  # its head, then what is committed
    assert {"db-wal", "db"} == set(names[names.index("checkpoint") + 1 :])


@needs_sqlite
def test_what_cannot_be_told_is_no_success(tmp_path: Path) -> None:
    """If the model fails while sqlite syncs, sqlite's call fails too: a wrong model must not go on in silence."""
    code = """
broken.append(True)
try:
    sqlite3.connect(state / "db", isolation_level=None).execute("CREATE TABLE t (a)")
except sqlite3.OperationalError as error:
    heard.append(str(error))
"""
    assert ["disk I/O error"] == heard(tmp_path, "sqlite", code)[-1:]


def test_the_server_is_not_watched() -> None:
    """A life that is watched replaces calls in its own process: the next life has the real ones again."""
    with ForkServer(f"{Path(__file__).with_name('watched_life.py')}:live") as server:
        run = server.new_run()
        (run / "state").mkdir()
        outputs = [server.run({"run": str(run), "watch": each}).output.strip() for each in (False, True, False)]

    assert ["fsync", "telling", "fsync"] == outputs
    assert "fsync" == os.fsync.__name__
