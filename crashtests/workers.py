"""Workers: processes that do the jobs of a subcommand, and that end with it; and the one core that each keeps to.

A pool of the standard library whose processes would outlive it: killed by a signal, it has no time to tell them that
there are no more jobs, and they wait for one for ever. Here each watches the process that it was started by.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def add_jobs(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the option `--jobs`; without it there are as many at a time as there are cores."""
    jobs = os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=jobs, metavar="N", help=f"{what} at a time (default {jobs})")


def workers(jobs: int, begin: Callable[..., object] | None = None, *arguments: Any) -> ProcessPoolExecutor:
    """A pool of `jobs` fresh interpreters, each of which calls `begin(*arguments)` first. A context manager."""
    spawned = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=spawned, initializer=_begin, initargs=(begin, arguments))


def keep_to_one_core(place: int) -> None:
    """Keep this process, and all that it starts, to the `place`-th of its cores, where the system knows such a thing.

    A worker, its fork server and a life take turns, thousands of times a minute. To wake each other across cores costs
    an interrupt each time, which a virtual machine makes dear. What two take from each other `bench` says.
    """
    if sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[place % len(cores)]})


def _begin(begin: Callable[..., object] | None, arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    keep_to_one_core(int(multiprocessing.current_process().name.rpartition("-")[2]))
    if begin is not None:
        begin(*arguments)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        # Not `sys.exit`, which ends this thread only; what the worker has started ends with it (forkserver).
        os._exit(1)
