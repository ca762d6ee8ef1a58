"""What a verified life of the campaign costs, against bare processes that do no more than die, and where the time goes.

One sweep on the json store, and beside each of its schedules, in turn: as many bare forks that make the same number of
durable writes of the same size, SIGKILL themselves and are waited for; as many empty ones; and, for a few, the way
without a fork server, a cold `python -m harness` killed by CRASH_AFTER. Then the same sweep by one worker and by two at
a time, in turn; and a shard of the machine, drawn only and drawn and executed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier
from pathlib import Path

from crashtests.campaign import Campaign
from crashtests.evidence import Evidence
from crashtests.execute import Executor, executor
from crashtests.machine import run_shard
from crashtests.schedule import Schedule, parse
from crashtests.sweep import Task, sweep
from crashtests.workers import workers

# A life of the sweep writes files of about this size.
_BYTES = b"x" * 2048
_COLD_LIVES = 5
_TASK = Task(parse("v1 json marks [read pay] end"), kills=1)
# Long enough that two workers which start a little apart are both at work for nearly all of it.
_SWEEPS = 3
# A worker whose other has failed must not wait for it for ever.
_PATIENCE_S = 60.0


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
            evidence, violations = campaign.check(base, "bench", kill_at=k)
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

        for _ in sweep(_TASK, check):
            pass
    lives.cold = [_cold(directory / f"cold-{n}") for n in range(_COLD_LIVES)]
    return lives


def rates(rounds: int = 3) -> tuple[float, float]:
    """Verified lives per second: of one worker, and of two at a time."""
    found: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for count, each in found.items():
            lives = spans(count)
            took = max(span.end for span in lives) - min(span.start for span in lives)
            each.append(sum(span.lives for span in lives) / took)
    return statistics.median(found[1]), statistics.median(found[2])


@dataclass(frozen=True, slots=True)
class Span:
    """What one worker has lived, and from when until when, in seconds of one clock."""

    lives: int
    start: float
    end: float


def spans(count: int) -> list[Span]:
    """The same sweeps by so many workers, which begin together. Raises what goes wrong in one of them."""
    together = multiprocessing.get_context("spawn").Barrier(count)
    with workers(count, _meet, together) as pool:
        return list(pool.map(_work, range(count)))


_together: Barrier


def _meet(together: Barrier) -> None:
    global _together
    _together = together


def _work(_: int) -> Span:
    with executor() as execute:
        _sweep(execute)
        _together.wait(_PATIENCE_S)
        before, began = execute.lives, time.perf_counter()
        for _ in range(_SWEEPS):
            _sweep(execute)
        return Span(execute.lives - before, began, time.perf_counter())


def _sweep(execute: Executor) -> None:
    """One sweep, with nothing remembered from one before."""
    execute.forget()
    campaign = Campaign(execute)
    for _ in sweep(_TASK, lambda base, k: campaign.check(base, "bench", kill_at=k)[0]):
        pass


def drawing(schedules: int = 40) -> tuple[float, float]:
    """Milliseconds a schedule of the machine: drawn by Hypothesis and no more, and executed and judged as well."""
    with executor() as execute:
        campaign = Campaign(execute)

        def judge(schedule: Schedule) -> None:
            campaign.check(schedule, "bench")

        return _shard(execute, lambda schedule: None, schedules), _shard(execute, judge, schedules)


def _shard(execute: Executor, judge: Callable[[Schedule], None], schedules: int) -> float:
    drawn = 0

    def count(schedule: Schedule) -> None:
        nonlocal drawn
        drawn += 1
        judge(schedule)

    began = time.perf_counter()
    run_shard(count, execute.subject, seed_number=0, schedules=schedules)
    return (time.perf_counter() - began) * 1e3 / drawn


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
