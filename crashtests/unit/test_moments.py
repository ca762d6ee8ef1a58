"""The table of the lesson's moments, cell by cell: a real kill there, a look at the disk, a resume."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crashtests.unit.bodies import asks, call, says
from crashtests.unit.lives import both_stores
from crashtests.unit.moments import KINDS, TABLE, Kind, Ledger, Resume, Row, markdown
from crashtests.unit.scenes import Scene
from crashtests.unit.world import DONE_TEXT
from harness import Effect, Store
from harness.settle import UNKNOWN_TEXT

# A read-only call needs no started mark, so the moment after one cannot come for it.
CELLS = [
    pytest.param(row, kind, resume, id=f"{row.label}-{'marks' if row.marks else 'no-marks'}-{kind.text}")
    for row in TABLE
    for kind, resume in zip(KINDS, row.resume, strict=True)
    if (row.label, kind.effect) != ("after-started-mark", Effect.READ_ONLY)
]


@both_stores
@pytest.mark.parametrize(("row", "kind", "resume"), CELLS)
def test_each_cell_is_what_happens(
    store_class: type[Store], fast_path: Path, row: Row, kind: Kind, resume: Resume
) -> None:
    """Killed at this moment, the disk holds what the table says, and a resume does what the table says."""
    made = Scene(fast_path / "run", store_class, [asks(call("t1")), says("done")], marks=row.marks)
    verify = made.world.verify if kind.verify else None
    made.tools = [made.world.tool(effect=kind.effect, verify=verify)]
    made.killed(row.label)
    left, ledger = made.store.read()
    entries = made.world.of("entry")
    ended, said = made.completed()
    known = Ledger.SILENT if (row.ledger, kind.effect) == (Ledger.STARTED, Effect.READ_ONLY) else row.ledger

    assert (["t1"] if row.point == "A" else []) == [c.tool_use_id for c in left.pending]
    assert {"A": 2, "B": 3}[row.point] == len(left.messages)
    entry = ledger.get("t1")
    assert known is (Ledger.SILENT if entry is None else Ledger.FINISHED if entry.finished else Ledger.STARTED)
    assert resume.entries == len(made.world.of("entry")) - len(entries)
    assert resume.verifies == len(made.world.of("verify"))
    assert [UNKNOWN_TEXT if resume.unknown else DONE_TEXT] == made.contents()
    assert (("t1",) if resume.unknown else ()) == ended.unknowns
    assert [resume.said] == [resume.said for line in said if resume.said in line]
    assert len(made.world.of("effect")) <= (2 if kind.effect is Effect.READ_ONLY else 1)


def test_the_table_is_printed_for_the_readme() -> None:
    """One header, one row per moment and protocol, and no cell empty."""
    command = [sys.executable, "-m", "crashtests.unit.moments"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    cells = [line.strip("|").split("|") for line in printed.splitlines()]

    assert f"{markdown()}\n" == printed
    assert [8] * (2 + len(TABLE)) == [len(row) for row in cells]
    assert all(cell.strip() for row in cells for cell in row)
