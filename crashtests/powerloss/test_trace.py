"""The model against system calls: what a life leaves that loses power is, byte for byte, what its calls say."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from crashtests.bugs import BUGS
from crashtests.powerloss import sqlite_syncs
from crashtests.powerloss.trace import Replay, _Reader, missing, traced_life
from crashtests.schedule import Kill, parse

OURS = "crashtests.subjects.ours:Harness"

# Ours, and edits of ours that leave something unsynced for each loss to take away.
LIVES = [
    (None, "v1 json marks [pay] end > start-ledger.half-written:1!torn"),
    (None, "v1 json marks [pay] end > save-a.written:1!data"),
    (None, "v1 json marks [pay] end > save-a.renamed:1!"),
    (None, "v1 json no-marks [put] end > after-final-save:1!"),
    (None, "v1 sqlite marks [pay] end > start.renamed:1!"),
    (None, "v1 sqlite marks [pay] end > after-start-save:1!"),
    (None, "v1 sqlite marks [pay] end > after-effect:1!data"),
    (None, "v1 sqlite no-marks [mail] end > final.after-commit:1!"),
    ("the file is not synced", "v1 json marks [pay] end > after-effect:1!"),
    ("the file is not synced", "v1 json marks [pay] end > after-effect:1!torn"),
    ("renamed before it is synced", "v1 json marks [pay] end > started.renamed:1!data"),
    ("the directory is not synced", "v1 json marks [pay] end > after-save-b:1!"),
    ("a new directory is not synced", "v1 json marks [pay] end > after-save-b:1!"),
    ("synced before it is flushed", "v1 json marks [pay] end > effect.renamed:1!torn"),
    ("synchronous is off", "v1 sqlite marks [pay] end > after-effect:1!"),
    ("synchronous is off", "v1 sqlite marks [pay] end > after-effect:1!data"),
    ("synchronous is normal", "v1 sqlite marks [pay] end > after-effect:1!"),
    ("synchronous is normal", "v1 sqlite marks [pay] end > after-save-b:1!torn"),
]


def unmapped(tree: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """A tree without the content of shared memory, which is written without a call."""
    return {path: b"" if path.endswith("-shm") else content for path, content in tree.items()}


@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize(("name", "line"), LIVES)
def test_what_the_calls_say(name: str | None, line: str, tmp_path: Path) -> None:
    """A life under strace: the state directory that its loss of power has left is the one that its calls come to."""
    schedule = parse(line)
    if schedule.store == "sqlite" and sqlite_syncs.unavailable():
        pytest.skip(str(sqlite_syncs.unavailable()))
    (run := tmp_path / "run").mkdir()
    kill = schedule.kills[0]
    assert isinstance(kill, Kill)
    request: dict[str, Any] = {
        **{"schedule": line, "life": 1, "resume": False, "run": str(run), "log": "world.log", "tools_end": True},
        **{"kill": [kill.label, kill.n, kill.loss], "watch": True, "accepted": []},
    }
    edit = next((asdict(bug.edit) for bug in BUGS if bug.name == name), None)
    replay = traced_life(request, {"subject": OURS, "planted": edit, "warm_up": False})

    found = {str(p.relative_to(run)): p.read_bytes() if p.is_file() else None for p in run.rglob("*")}
    del found["world.log"]
    assert unmapped(replay.left(kill.loss)) == unmapped(found)


def test_lines_of_strace() -> None:
    """What strace writes is read: paths and data in hexadecimal, results, calls that failed."""
    lines = r"""
mkdir("\x2f\x72\x2f\x73", 0700) = 0
openat(AT_FDCWD, "\x2f\x72\x2f\x73\x2f\x61", O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0600) = 3
write(3, "\x31\x32", 2) = 2
write(3, "\x33\x34", 2) = 1
pwrite64(3, "\x39", 1, 0) = 1
fsync(3) = 0
write(3, "\x35\x36", 2) = 2
openat(AT_FDCWD, "\x2f\x72\x2f\x73", O_RDONLY|O_CLOEXEC|O_DIRECTORY) = 4
fsync(4) = 0
openat(AT_FDCWD, "\x2f\x72", O_RDONLY|O_CLOEXEC|O_DIRECTORY) = 4
fsync(4) = 0
rename("\x2f\x72\x2f\x73\x2f\x61", "\x2f\x72\x2f\x73\x2f\x62") = 0
unlink("\x2f\x72\x2f\x73\x2f\x63") = -1 ENOENT (No such file or directory)
write(7, "\x31", 1) = 1
+++ killed by SIGKILL +++
"""
    replay = Replay("/r/s")
    reader = _Reader(replay)
    for line in lines.strip().splitlines():
        reader.read(line)

    assert {"s": None, "s/b": b"92356"} == replay.left("")
    assert {"s": None, "s/a": b"923"} == replay.left("!")
    assert {"s": None, "s/b": b"923"} == replay.left("!data")
    assert {"s": None, "s/b": b"9235"} == replay.left("!torn")


def test_a_call_that_is_not_known() -> None:
    """A call that changes a file in a way that is not replayed is an error, not a wrong result."""
    reader = _Reader(Replay("/r/s"))
    reader.read(r'mkdir("\x2f\x72\x2f\x73", 0700) = 0')
    reader.read(r'openat(AT_FDCWD, "\x2f\x72\x2f\x73\x2f\x61", O_WRONLY|O_CREAT, 0600) = 3')
    with pytest.raises(ValueError, match="fallocate of a file that is watched"):
        reader.read("fallocate(3, 0, 0, 10) = 0")
