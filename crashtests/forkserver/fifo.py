"""A FIFO that processes hold open: it tells which they are, and when the last of them is dead. For tests."""

from __future__ import annotations

import os
import select
from pathlib import Path


class Fifo:
    """Tells which processes hold it (they write their ids) and when the last of them is dead (its end)."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        # Not blocking, or it would wait here for a writer, which in turn would wait for this reader.
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(reader, True)
        self._lines = open(reader, encoding="ascii")  # noqa: SIM115 - closed by the fixture
        self._written = False

    def next_pid(self) -> int:
        self._wait_for_writer()
        return int(self._lines.readline())

    def wait_for_end(self) -> list[int]:
        self._wait_for_writer()
        return [int(line) for line in self._lines]

    def _wait_for_writer(self) -> None:
        """Before the first one comes, reading would find an end that is none."""
        if not self._written:
            poll = select.poll()
            poll.register(self._lines, select.POLLIN)
            poll.poll()
            self._written = True

    def close(self) -> None:
        self._lines.close()
