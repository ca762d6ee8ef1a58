"""The lesson's moments: what is on disk when the process is killed there, and what a resume then does.

`TABLE` is data that `test_moments.py` holds against real kills, cell by cell; `python -m crashtests.unit.moments`
prints it as the table of the README.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from harness import Effect


class Resume(Enum):
    """What a resume does with the call, and how that shows: how often it enters the tool, asks verify, says unknown."""

    RUNS = ("runs it", 1, 0, False, "nothing can have happened")
    RUNS_UNDER_KEY = ("runs it, perhaps again, under the same key", 1, 0, False, "under the same key")
    VERIFY_NOT_DONE = ("verify says it was not done: runs it", 1, 1, False, "it was not done")
    VERIFY_DONE = ("verify says it was done: uses its outcome", 0, 1, False, "it is done")
    SAYS_UNKNOWN = ("says that its state is unknown", 0, 0, True, "its state is unknown")
    REUSES = ("uses the recorded outcome", 0, 0, False, "ledger hit")
    GOES_ON = ("nothing is pending: asks the model", 0, 0, False, "pending=none")

    def __init__(self, text: str, entries: int, verifies: int, unknown: bool, said: str) -> None:
        self.text = text
        self.entries = entries
        self.verifies = verifies
        self.unknown = unknown
        self.said = said


class Ledger(Enum):
    """What the ledger knows of the call."""

    SILENT = "nothing"
    STARTED = "that it started"
    FINISHED = "its outcome"


class Kind(NamedTuple):
    """A tool's effect class, and whether it has a verify."""

    effect: Effect
    verify: bool = False

    @property
    def text(self) -> str:
        return f"`{self.effect.name}`{' with `verify`' if self.verify else ''}"


class Row(NamedTuple):
    """One moment under one protocol. `ledger` is what it knows of a call that may change the world."""

    moment: str
    label: str
    marks: bool
    point: str
    ledger: Ledger
    resume: tuple[Resume, Resume, Resume, Resume]


KINDS = (
    Kind(Effect.READ_ONLY),
    Kind(Effect.IDEMPOTENT),
    Kind(Effect.SIDE_EFFECT, verify=True),
    Kind(Effect.SIDE_EFFECT),
)

_NOT_BEGUN = "A saved, tool not begun"
_MARKED = "started mark written, tool not begun"
_DONE = "tool done, ledger not written"
_RECORDED = "ledger written, B not saved"
_B = "B saved"

_R = Resume
TABLE = (
    Row(_NOT_BEGUN, "after-save-a", True, "A", Ledger.SILENT, (_R.RUNS, _R.RUNS, _R.RUNS, _R.RUNS)),
    Row(
        *(_NOT_BEGUN, "after-save-a", False, "A", Ledger.SILENT),
        (_R.RUNS, _R.RUNS_UNDER_KEY, _R.VERIFY_NOT_DONE, _R.SAYS_UNKNOWN),
    ),
    Row(
        *(_MARKED, "after-started-mark", True, "A", Ledger.STARTED),
        (_R.RUNS, _R.RUNS_UNDER_KEY, _R.VERIFY_NOT_DONE, _R.SAYS_UNKNOWN),
    ),
    Row(
        *(_DONE, "after-tool", True, "A", Ledger.STARTED),
        (_R.RUNS, _R.RUNS_UNDER_KEY, _R.VERIFY_DONE, _R.SAYS_UNKNOWN),
    ),
    Row(
        *(_DONE, "after-tool", False, "A", Ledger.SILENT),
        (_R.RUNS, _R.RUNS_UNDER_KEY, _R.VERIFY_DONE, _R.SAYS_UNKNOWN),
    ),
    Row(_RECORDED, "after-effect-write", True, "A", Ledger.FINISHED, (_R.REUSES,) * 4),
    Row(_RECORDED, "after-effect-write", False, "A", Ledger.FINISHED, (_R.REUSES,) * 4),
    Row(_B, "after-save-b", True, "B", Ledger.FINISHED, (_R.GOES_ON,) * 4),
    Row(_B, "after-save-b", False, "B", Ledger.FINISHED, (_R.GOES_ON,) * 4),
)


def markdown() -> str:
    """The table for the README: a row for each moment and protocol, a column for each kind of tool."""
    head = ["killed when", "started marks", "on disk: point", "the ledger knows", *(kind.text for kind in KINDS)]
    lines = [head, ["---"] * len(head)]
    for row in TABLE:
        known = row.ledger.value + (" (`READ_ONLY`: nothing)" if row.ledger is Ledger.STARTED else "")
        marks = "yes" if row.marks else "no"
        lines.append([row.moment, marks, row.point, known, *(resume.text for resume in row.resume)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(markdown())
