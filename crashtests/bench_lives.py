"""What a verified life of the campaign costs, against bare processes that do no more than die.

One sweep on the json store, and beside each of its schedules, in turn: as many bare forks that make the same number of
durable writes of the same size, SIGKILL themselves and are waited for; as many empty ones; and, for a few, the way
without a fork server, a cold `python -m harness` killed by CRASH_AFTER.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from crashtests.campaign import Campaign
from crashtests.evidence import Evidence
from crashtests.execute import executor
from crashtests.schedule import Schedule, parse
from crashtests.sweep import Task, sweep

# A life of the sweep writes files of about this size.
_BYTES = b"x" * 2048
_COLD_LIVES = 5


@dataclass(slots=True)
class Lives:
    """Milliseconds a life, by way of living it."""

    verified: list[float] = field(default_factory=list)
    writing: list[float] = field(default_factory=list)
    empty: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)

    def medians(self) -> dict[str, float]:
        return {name: statistics.median(getattr(self, name)) for name in self.__slots__}


def measure(directory: Path) -> Lives:
    """Live one sweep of `[read pay]` on the json store, and its bare counterparts in `directory`, in turn."""
    lives = Lives()
    with executor() as execute:
        campaign = Campaign(execute)

        def check(base: Schedule, k: int | None) -> Evidence:
            before, began = execute.lives, time.perf_counter()
            evidence, violations = campaign.check(task.base, "bench", kill_at=k)
            took = time.perf_counter() - began
            if violations:
                raise RuntimeError(f"'{evidence.schedule}' breaks {violations[0]}: nothing to measure")
            if execute.lives > before:
                lives.verified.append(took * 1e3 / (execute.lives - before))
            for life in evidence.lives:
                writes = sum(label.endswith(".dir-synced") for label in life.passed)
                lives.writing.append(_bare(lambda writes=writes: _write(directory, writes)))  # type: ignore[misc]
                lives.empty.append(_bare(lambda: None))
            return evidence

        task = Task(parse("v1 json marks [read pay] end"), kills=1)
        for _ in sweep(task, check):
            pass
    lives.cold = [_cold(directory / f"cold-{n}") for n in range(_COLD_LIVES)]
    return lives


def _bare(child: Callable[[], None]) -> float:
    """Fork, have the child do its part and SIGKILL itself, wait for it; returns the time in ms."""
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        child()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    return (time.perf_counter() - began) * 1e3


def _write(directory: Path, writes: int) -> None:
    for n in range(writes):
        name = os.path.join(directory, f"file-{n % 2}")
        fd = os.open(f"{name}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(fd, _BYTES)
        os.fsync(fd)
        os.close(fd)
        os.rename(f"{name}.tmp", name)
        fd = os.open(directory, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def _cold(directory: Path) -> float:
    """The demonstration, killed in a process of its own; returns the time in ms."""
    directory.mkdir()
    environment = os.environ | {"CRASH_AFTER": "after-tool:1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    began = time.perf_counter()
    process = subprocess.run(
        [sys.executable, "-m", "harness"], cwd=directory, env=environment, stdout=subprocess.DEVNULL, check=False
    )
    if process.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the cold life was not killed: it ended with {process.returncode}")
    return (time.perf_counter() - began) * 1e3
