"""Lives in a fork of the test process, which knows whatever the test has made; and the marks of tests that live twice.

Such a life can run anything, but costs several times what one of a fork server does (`Scene.killed`): it is for what
cannot be told to another process. The parent believes the kernel and the child together: a life counts as killed only
if it was signal 9 and the child had announced the crash point. The child never comes back into the test: it leaves by
`os._exit`.
"""

from __future__ import annotations

import gc
import os
import signal
import traceback
import warnings
from collections.abc import Callable
from typing import NoReturn

import pytest

from crashtests.unit.scenes import STORES, Scene, say
from harness import crash

both_stores = pytest.mark.parametrize("store_class", STORES.values(), ids=STORES)
both_protocols = pytest.mark.parametrize("marks", [True, False], ids=["marks", "no-marks"])

# A child that hangs is ended by the kernel, and its test fails.
_LIFE_MAX_S = 30


def scene_killed_here(scene: Scene, label: str, n: int = 1) -> list[str]:
    """A life of this very scene that is killed at the n-th pass of `label`. Returns what it said."""
    return killed(lambda: scene.live(say=say, warn=say), label, n)


def killed(run: Callable[[], object], label: str, n: int = 1) -> list[str]:
    """Run in a child that must be killed at the n-th pass of `label`. Returns what it said."""
    status, lines = _fork(run, crash.Armed(label, n))
    assert lines, (label, n, status)
    assert os.WIFSIGNALED(status), (label, n, lines)
    assert signal.SIGKILL == os.WTERMSIG(status), (label, n, lines)
    assert f"[kill] {label}:{n}" == lines[-1]
    return lines[:-1]


def _fork(run: Callable[[], object], armed: crash.Armed) -> tuple[int, list[str]]:
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of threads in the parent, such as a test runner's; the child uses none of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _live(run, armed, write_end)
    os.close(write_end)
    with open(read_end, encoding="utf-8") as pipe:
        said = pipe.read()
    return os.waitpid(pid, 0)[1], said.splitlines()


def _live(run: Callable[[], object], armed: crash.Armed, write_end: int) -> NoReturn:
    try:
        gc.disable()  # a collection would copy the parent's whole heap
        signal.alarm(_LIFE_MAX_S)
        os.dup2(write_end, 1)
        crash.listen(armed)
        say(f"survived: {run()}")
    except BaseException:
        say(traceback.format_exc())
    finally:
        os._exit(1)
