"""What the tests of the fork server share: patience, and a FIFO to follow processes by."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from crashtests.forkserver.fifo import Fifo


@pytest.fixture(autouse=True)
def _patience() -> Iterator[None]:
    """Turn a test that waits for ever into one that fails; no outcome depends on the number."""

    def give_up(_signum: int, _frame: FrameType | None) -> None:
        raise AssertionError("waited for 20 s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Fifo]:
    made = Fifo(tmp_path / "fifo")
    yield made
    made.close()
