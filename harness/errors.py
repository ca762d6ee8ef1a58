"""What can go wrong, one class per kind of failure.

An error names the value, what is allowed and what to do; what a program may want (the path, the remedy) is an
attribute. The command line turns the three families into exit statuses: `UsageError` 2, `StopError` 3,
`StateRefused` 4. `BaseException` (Ctrl-C, SystemExit) is none of them and passes through untouched.
"""

from __future__ import annotations

from pathlib import Path


class HarnessError(Exception):
    """Root of everything the harness raises on purpose."""


class UsageError(HarnessError):
    """The caller asked for something that cannot be done. Nothing was run and nothing on disk changed."""


class StopError(HarnessError):
    """The run cannot go on now, and its state is intact: resuming it later continues."""


class WriteFailed(StopError):
    """A durable write failed (disk full, I/O error). What was on disk before it can still be loaded.

    Make room or repair the disk, then resume.
    """

    def __init__(self, path: Path, write: str, cause: BaseException) -> None:
        super().__init__(f"could not write {write!r} to {path}: {cause}; what was saved before it is intact")
        self.path = path
        self.write = write


class ModelFailed(StopError):
    """The model gave no usable answer: API down after its retries, request refused, script at its end.

    Nothing of the exchange is saved; a resume asks again.
    """


class StateRefused(HarnessError):
    """What is on disk cannot be resumed safely. Nothing on disk was changed.

    `path` is the file or directory that was refused, `remedy` what the user can do about it.
    """

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}; {remedy}")
        self.path = path
        self.problem = problem
        self.remedy = remedy


class StateMissing(StateRefused):
    """There is no run here: none was started, or its start died before the scene was saved (nothing had run)."""


class StateIncomplete(StateRefused):
    """Half of the pair is gone. Absence of a ledger entry is evidence, so a checkpoint needs its own ledger."""


class StateDamaged(StateRefused):
    """A file of ours that is not as it was written: cut short, overwritten, edited, or inconsistent."""


class StateForeign(StateRefused):
    """A file that is not ours, or a ledger that belongs to another run."""


class StateVersion(StateRefused):
    """Written in a version of the format that this release does not read."""


class StateMode(StateRefused):
    """The run was started with the other ledger protocol (with or without started marks)."""


class StateHeld(StateRefused):
    """A live process owns this run. The lock dies with its process, so it cannot be stale."""
