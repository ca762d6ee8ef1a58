"""What a test changes around a run of the command line: called in the life, before the command line is.

A test names a function of this module and its arguments, as in `before=(limit_files, 65_536)`; the life finds it by
its name.
"""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any


def limit_files(size_max: int) -> None:
    """The kernel lets no file grow beyond so many bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_max, size_max))


def become_nobody() -> None:
    """Root may write anywhere; whoever else runs the tests is nobody already."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65_534)
        os.setuid(65_534)


def break_stdout() -> None:
    """Nobody will ever read stdout."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    os.dup2(write_end, 1)


def close_stdout() -> None:
    os.close(1)


def close_streams() -> None:
    """No stdin, no stdout, no stderr."""
    for fd in range(3):
        os.close(fd)


def owner_finishes(early: str, late: str) -> None:
    """Once the first file of the run in `early` has been read, the files of `late` are put in its place."""
    old_files, new_files = Path(early), Path(late)

    def then_finish(read: Callable[..., Any]) -> Callable[..., Any]:
        def read_and_finish(path: Path, *rest: Any) -> Any:
            value = read(path, *rest)
            if new_files.exists():
                for old in old_files.iterdir():
                    old.unlink()
                for new in new_files.iterdir():
                    new.rename(old_files / new.name)
                new_files.rmdir()
            return value

        return read_and_finish

    Path.read_bytes = then_finish(Path.read_bytes)  # type: ignore[method-assign]
    shutil.copyfile = then_finish(shutil.copyfile)
