"""Crash points: named places where a process can be killed, for tests and for the demonstration.

A crash point is one call, `crash_point("after-save-a")`, at exactly one place in the code. Disarmed it costs one
comparison. `arm("after-save-a", 2)` makes the second pass in this life announce itself and send SIGKILL to the
process: no `finally`, no flush, no atexit. A test campaign installs a listener of its own instead.

This module knows the labels and what is on disk when each is passed; it knows nothing of who passes them. To add
a crash point: add its row here and call it once; a test compares the rows with the calls.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress

LOOP_POINTS = {
    "after-start-save": "an empty ledger and the scene; the model was not asked yet",
    "before-model": "the scene as last saved (start, point A of a paused turn, or point B)",
    "after-model": "the same: the response exists in memory only and is lost",
    "after-save-a": "point A: the assistant turn and its pending calls; none of them has begun",
    "after-started-mark": "point A, and the ledger says this call started; the tool has not run",
    "after-tool": "point A and the started mark, if any; the tool has run, and its outcome is in memory only",
    "after-effect-write": "point A, and the ledger holds this call's outcome",
    "after-save-b": "point B: the results are in the messages, nothing is pending",
    "after-stop-save": "the scene as before, and beside it the response that was not taken, with the reason",
    "after-final-save": "the finished scene with its answer",
    "after-load": "whatever the life before left (resume only; nothing was written since)",
    "before-verify": "point A and the started mark, if any; verify has not been asked (resume only)",
    "after-verify": "the same: the verdict is in memory only (resume only)",
}

# A fresh start over an earlier run moves its files away first, the one with the checkpoint before all others.
SET_ASIDE_POINTS = {
    "json": {
        "set-aside.checkpoint-moved": "the old checkpoint is moved away, its ledger still in place (fresh start)",
        "set-aside.ledger-moved": "the old pair is moved away, nothing of the new run exists (fresh start)",
    },
    "sqlite": {
        "set-aside.database-moved": "the old database is moved away, its log, if any, still in place (fresh start)",
        "set-aside.log-moved": "both are moved away, nothing of the new run exists (fresh start)",
    },
}

# What a durable write is for, and the file it goes to.
WRITES = {
    "start-ledger": "the empty ledger of a new run",
    "start": "the first scene of a new run",
    "save-a": "point A",
    "started": "the ledger with a call's started mark",
    "effect": "the ledger with a call's outcome",
    "save-b": "point B",
    "stop": "the scene with the response that was not taken",
    "final": "the finished scene",
}

# A file that is replaced: written beside itself, then renamed (`durable.replace`).
FILE_STAGES = {
    "half-written": "half of {what} in a temporary file; the file itself as before",
    "written": "{what} in a temporary file, perhaps only in the page cache; the file itself as before",
    "synced": "{what} in a temporary file, durable; the file itself as before",
    "renamed": "{what} under its name; after power loss perhaps still the one before",
    "dir-synced": "{what} under its name, durable",
}

# A transaction on the database of the sqlite store.
COMMIT_STAGES = {
    "before-commit": "the database as before; {what} is in an open transaction",
    "after-commit": "{what} is committed",
}


def crash_points(store: str) -> dict[str, str]:
    """Every crash point label of a run on `store` ("json" or "sqlite"), with what is on disk when it is passed."""
    points = LOOP_POINTS | SET_ASIDE_POINTS[store]
    for write, what in WRITES.items():
        if store == "sqlite" and write == "start-ledger":
            continue  # the new database holds both, and is put in place as one file
        stages = FILE_STAGES if store == "json" or write == "start" else COMMIT_STAGES
        points |= {f"{write}.{stage}": text.format(what=what) for stage, text in stages.items()}
    return points


_listener: Callable[[str], None] | None = None


def crash_point(label: str) -> None:
    """Pass the crash point `label`."""
    if _listener is not None:
        _listener(label)


def listen(listener: Callable[[str], None] | None) -> None:
    """Have `listener(label)` called at every crash point of this process; None disarms."""
    global _listener
    _listener = listener


class Armed:
    """A listener that kills this process at the n-th pass of one label. `passes` counts them so far."""

    def __init__(self, label: str, n: int = 1) -> None:
        self.label = label
        self.n = n
        self.passes = 0

    def __call__(self, label: str) -> None:
        if label != self.label:
            return
        self.passes += 1
        if self.passes == self.n:
            # A reader that went away must not turn the kill into an exception.
            with suppress(OSError):
                os.write(1, f"[kill] {label}:{self.n}\n".encode())
            kill_self()


def kill_self() -> None:
    """SIGKILL to this process: nothing of it runs any more."""
    os.kill(os.getpid(), signal.SIGKILL)
    # Only the first process of a container gets here: the kernel shields it from signals of its own namespace.
    os._exit(137)


def parse_crash_after(text: str) -> tuple[str, int]:
    """`label[:n]` as given in CRASH_AFTER -> (label, n). Raises ValueError saying what is allowed."""
    label, _, n = text.partition(":")
    if label not in crash_points("json") | crash_points("sqlite"):
        raise ValueError(f"CRASH_AFTER={text!r}: no crash point {label!r}; --list-crash-points names them all")
    if (n and not (n.isascii() and n.isdigit() and int(n) > 0)) or (":" in text and not n):
        raise ValueError(f"CRASH_AFTER={text!r}: n must be a whole number from 1, as in {label}:2")
    return label, int(n or 1)
