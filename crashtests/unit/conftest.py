"""Fixtures of the unit tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from crashtests.unit.scenes import STORES
from crashtests.unit.server import close_server
from harness import Store

# Tests that write much, and ask nothing of the disk but to keep it, need no real one.
_FAST_DISK = "/dev/shm" if Path("/dev/shm").is_dir() else None


@pytest.fixture(scope="session", autouse=True)
def _server_ends() -> Iterator[None]:
    """Whoever has asked for the fork server need not close it."""
    yield
    close_server()


@pytest.fixture
def fast_path() -> Iterator[Path]:
    """An empty directory, in memory where there is such a thing."""
    with tempfile.TemporaryDirectory(dir=_FAST_DISK, prefix="crashtests-") as directory:
        yield Path(directory).resolve()


@pytest.fixture(params=list(STORES.values()), ids=list(STORES))
def store(request: pytest.FixtureRequest, fast_path: Path) -> Store:
    """Each store, in a directory that is not there yet."""
    made: Store = request.param(fast_path / "state")
    return made
