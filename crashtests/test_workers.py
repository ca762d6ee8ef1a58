"""Workers end with the process that started them, however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

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
