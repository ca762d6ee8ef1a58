"""Owns what happens inside a life: it is cut loose from its server, calls the target, and leaves, or
announces its death.

A target imports `announce` and `die` from here, not from `crashtests.forkserver`, which would load the client
as well. The server forks into `enter` and `live`; a cold life gets to the same two through `main`, in a fresh
interpreter.

A life ends by `os._exit` after flushing its streams: neither atexit handlers nor other threads are waited
for, since a fork has inherited those of the server. Exit statuses are those of the interpreter, but for an
uncaught exception (70) and Ctrl-C (130), so that a broken target is not taken for a harness that reports
failure with 1.

It does not know why a life should die, nor what its labels mean.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from crashtests.forkserver import processes

EXIT_UNCAUGHT = 70
EXIT_INTERRUPTED = 130
# What a shell says of a SIGKILL. Only PID 1 gets to use it.
EXIT_UNKILLABLE = 137

Function = Callable[[dict[str, Any]], int | None]

_witness: int | None = None


def announce(label: str) -> None:
    """Tell the server, past all buffers, that this life is about to be killed at `label`.

    RuntimeError outside a life: a crash point that fires in the wrong process must not pass for a death.
    """
    if _witness is None:
        raise RuntimeError(
            f"announce({label!r}) was called outside a life: only a ForkServer's children have a witness"
        )
    os.write(_witness, _record(label))


def _record(value: str | dict[str, str]) -> bytes:
    """One line of the witness: a Python literal, for `ascii` touches half the pages of `json.dumps`."""
    return ascii(value).encode() + b"\n"


def die(label: str) -> NoReturn:
    """Announce `label` and SIGKILL this process: no `finally`, no flush, no atexit."""
    announce(label)
    os.kill(os.getpid(), signal.SIGKILL)
    # Reached by PID 1 of a container alone, for which the kernel drops a signal that it sends to itself.
    # Leave as abruptly as possible; an announcement without a signal 9 shows the caller that this was no
    # kill.
    os._exit(EXIT_UNKILLABLE)


class TargetError(Exception):
    """The target cannot be loaded or prepared; the message is for the person who wrote the target."""


def load(target: str, setup: dict[str, Any] | None) -> Function:
    """Import "module:function" or "path/to/file.py:function"; call the module's `prepare(setup)`, if any.

    Raises `TargetError`, which `prepare` may raise as well where a traceback would tell nothing.
    """
    place, _, name = target.rpartition(":")
    try:
        module = _import_file(place) if place.endswith(".py") else importlib.import_module(place)
    except BaseException as error:
        raise TargetError(f"cannot import it:\n{_explain(error)}") from None
    function = getattr(module, name, None)
    if not callable(function):
        raise TargetError(f"{place!r} has no function {name!r}")
    prepare = getattr(module, "prepare", None)
    if prepare is None and setup is not None:
        raise TargetError(f"a setup was given, but {place!r} has no function 'prepare' to take it")
    if prepare is not None:
        try:
            prepare(setup if setup is not None else {})
        except TargetError:
            raise
        except BaseException as error:
            raise TargetError(f"its prepare() failed:\n{_explain(error)}") from None
    loaded: Function = function
    return loaded


def _import_file(path: str) -> ModuleType:
    """Import a file as running it would: with its own directory first on the path."""
    sys.path.insert(0, os.path.dirname(path))
    name = os.path.basename(path).removesuffix(".py")
    if name in sys.modules or name in sys.stdlib_module_names:
        name = f"target_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path!r} is not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _explain(error: BaseException) -> str:
    """The error with its traceback, less the frames that are ours or the import system's."""
    import traceback  # only for failures: every fork would copy its pages

    report = traceback.TracebackException.from_exception(error)
    theirs = [
        frame
        for frame in report.stack
        if frame.filename != __file__
        and "importlib" not in frame.filename.split(os.sep)
        and not frame.filename.startswith("<frozen importlib")
    ]
    report.stack = traceback.StackSummary.from_list(theirs)
    return "".join(report.format()).rstrip()


def enter(server: int, lifeline: int, output: int, witness: int) -> None:
    """Turn a fresh fork of the server into a life: a session and streams of its own."""
    global _witness
    os.setsid()
    processes.die_with(server, lifeline)
    os.dup2(output, 1)  # stdin is the server's, and so is empty
    os.dup2(output, 2)
    os.close(output)
    _witness = witness


def live(function: Function, request: dict[str, Any]) -> NoReturn:
    """Call the target and leave with the status that it returns."""
    status = EXIT_UNCAUGHT
    try:
        status = _status_of(function, request)
        status = _flush() or status
    finally:
        os._exit(status & 0xFF)


def _status_of(function: Function, request: dict[str, Any]) -> int:
    try:
        if "cwd" in request:
            os.chdir(request["cwd"])
        if "random_seed" in request:
            import random  # not before it is needed: it is seeded anew at every fork, which takes its time

            random.seed(request["random_seed"])
        status = function(request)
        if status is not None and not isinstance(status, int):
            raise TypeError(f"the target returned {status!r}, but must return an exit status (int) or None")
        return status or 0
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0
        print(leaving.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return EXIT_INTERRUPTED if isinstance(error, KeyboardInterrupt) else EXIT_UNCAUGHT


def _flush() -> int:
    """Flush the streams; 120, as the interpreter has it, if that fails."""
    status = 0
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            try:
                stream.flush()
            except Exception:
                status = 120
    return status


def main() -> None:
    """Be a cold life, in a fresh interpreter that has taken the place of a fork of the server."""
    server, lifeline, witness, job = map(int, sys.argv[1:5])
    global _witness
    _witness = witness
    os.set_inheritable(witness, False)
    os.set_inheritable(lifeline, False)
    processes.die_with(server, lifeline)
    with open(job, encoding="ascii") as file:
        file.seek(0)
        task = json.load(file)
    try:
        function = load(task["target"], task["setup"])
    except TargetError as error:
        os.write(witness, _record({"target_error": str(error)}))
        os._exit(EXIT_UNCAUGHT)
    # A forked life does not show what the import printed, so this one does not either.
    _flush()
    with contextlib.suppress(OSError):
        os.ftruncate(1, 0)
    live(function, task["request"])
