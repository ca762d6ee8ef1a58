"""Owns what the lives in the fork server's own tests do: one function per way to live or to die.

A request names its function in "do". A life that must be watched from outside gets a "fifo": it and whatever
it starts hold that open, so its end of file is their death, and nobody has to poll or sleep.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import signal
import sys
import time
from typing import Any

from crashtests.forkserver import processes
from crashtests.forkserver.child import announce, die

prepared: list[dict[str, Any]] = []


def prepare(setup: dict[str, Any]) -> None:
    """Remember the setup; print garbage, start a process or take Linux's own means away, if it says so."""
    prepared.append(setup)
    if "garbage" in setup:
        print(setup["garbage"])
        print(setup["garbage"], file=sys.stderr)
        os.write(1, b"\xff\x00\x00{" * 1000)
    if "helper" in setup and os.fork() == 0:
        _wait_for_ever(os.open(setup["helper"], os.O_WRONLY))
    if setup.get("portable"):
        if hasattr(os, "pidfd_open"):
            del os.pidfd_open
        processes._prctl = None
        processes.children = frozenset


def perform(request: dict[str, Any]) -> int | None:
    """Do what the request says."""
    status: int | None = globals()[request["do"]](request)
    return status


def leave(request: dict[str, Any]) -> Any:
    """Return a status, or something that is none."""
    return request["status"]


def kill_announced(request: dict[str, Any]) -> None:
    """Die at a crash point, with output in a buffer that nobody flushes."""
    print("never flushed", end="")
    die(request.get("label", "point:1"))


def kill_unannounced(request: dict[str, Any]) -> None:
    """Die of a signal that no crash point has sent."""
    os.kill(os.getpid(), request["signal"])


def announce_only(request: dict[str, Any]) -> None:
    """Announce deaths and live on."""
    for label in request["labels"]:
        announce(label)


def survive_die(request: dict[str, Any]) -> None:
    """Die as PID 1 does: not at all."""
    print("never flushed", end="")
    os.kill = lambda _pid, _signal: None
    die("point:1")


def fail(request: dict[str, Any]) -> None:
    """Raise what the request names."""
    raise {"ValueError": ValueError, "KeyboardInterrupt": KeyboardInterrupt, "SystemExit": SystemExit}[
        request["error"]
    ](*request["arguments"])


def look(request: dict[str, Any]) -> None:
    """Print what a life sees of itself."""
    seen = {
        "modules": sorted(sys.modules),
        "environment": dict(os.environ),
        "descriptors": sorted(int(name) for name in os.listdir("/dev/fd")),
        "cwd": os.getcwd(),
        "stdin": sys.stdin.read(),
        "is_leader": os.getsid(0) == os.getpgid(0) == os.getpid(),
        "handlers": [repr(signal.getsignal(number)) for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)],
        "request_chars": len(json.dumps(request)),
        "prepared": prepared,
        "hash": hash("life"),
        "collects_garbage": gc.isenabled(),
        "random": random.random(),
        "pid": os.getpid(),
    }
    print(json.dumps(seen))


def write_much(request: dict[str, Any]) -> None:
    """Print more than a pipe, or a Death, can hold."""
    print("x" * request["chars"], flush=True)
    print("to stderr", file=sys.stderr, flush=True)
    os.write(1, b"\xff the end")


def start_others(request: dict[str, Any]) -> None:
    """Leave `children` in the group and `daemons` in sessions of their own behind, then end as told.

    And `mourners`, which end by themselves as soon as this life is dead and they are counted. With `behind_it` the
    children say that they are there when it is.
    """
    holding = os.open(request["fifo"], os.O_WRONLY)
    alive, host = os.pipe()
    server, life = os.getppid(), os.getpid()
    for _ in range(request.get("mourners", 0)):
        if os.fork() == 0:
            os.close(host)
            os.read(alive, 1)  # until the life is dead
            wait_until_counted(server, life)
            os._exit(0)
    for kind in ["child"] * request.get("children", 0) + ["daemon"] * request.get("daemons", 0):
        if os.fork() == 0:
            os.close(host)
            if kind == "daemon":
                os.setsid()
                if os.fork():
                    os._exit(0)
            if request.get("behind_it"):
                os.read(alive, 1)
            _wait_for_ever(holding)
        if kind == "daemon":
            os.wait()  # for the process in between, which would else be one more survivor, or not
    if request.get("children_dead"):
        if os.fork() == 0:
            os._exit(0)
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)  # a zombie that nobody has reaped
    if request["then"] == "hang":
        _wait_for_ever(holding)
    if request["then"] == "die":
        die("point:1")
    if request["then"] == "kill server":
        os.kill(os.getppid(), signal.SIGKILL)
        _wait_for_ever(holding)
    if request["then"] == "interrupt client":
        os.kill(request["client"], signal.SIGUSR1)
        _wait_for_ever(holding)


def wait_until_counted(server: int, life: int) -> None:
    """Return once the server has counted what lives on behind the dead life: when it waits for another process.

    Whoever ends sooner may be gone before it has looked. Linux alone, where a pidfd says whose it is.
    """
    awaited = f"/proc/{server}/fdinfo"
    while True:
        for descriptor in os.listdir(awaited):
            with contextlib.suppress(FileNotFoundError), open(f"{awaited}/{descriptor}") as info:
                if {int(line[4:]) for line in info if line.startswith("Pid:")} - {life, -1}:  # -1: it is reaped
                    return
        time.sleep(0.001)


def _wait_for_ever(holding: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(holding, b"%d\n" % os.getpid())
    while True:
        signal.pause()
