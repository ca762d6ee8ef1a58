"""Workers end with the process that started them, however it ends, and keep to a core each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from crashtests.workers import workers

_STARTS_WORKERS = """
import os
from crashtests.workers import workers

if __name__ == "__main__":
    with workers(2) as pool:
        print(len(set(pool.map(os.getpgid, [0, 0]))), flush=True)
        input()
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_idle_workers_end_with_who_started_them(how: signal.Signals) -> None:
    """Whoever is killed while its workers have nothing to do leaves none of them behind."""
    command = [sys.executable, "-c", _STARTS_WORKERS]
    starter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert starter.stdout is not None
    assert b"1\n" == starter.stdout.readline()
    starter.send_signal(how)

    # The end of what it prints: no process is left that could print any more.
    assert b"" == starter.communicate(timeout=60)[0]
    assert -how == starter.returncode


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process keep to a core")
def test_each_keeps_to_one_core_as_long_as_there_are_enough() -> None:
    """Neighbours are on different cores, and none is on one that the process which starts them may not use."""
    cores = os.sched_getaffinity(0)
    with workers(2) as pool:
        kept = {frozenset(kept) for kept in pool.map(os.sched_getaffinity, [0] * 8)}

    assert {1} == {len(each) for each in kept}
    assert all(each <= cores for each in kept)
    assert len(kept) <= min(2, len(cores))
