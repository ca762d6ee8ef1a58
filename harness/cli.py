"""The command line: `python -m harness`. Other people's scripts rely on its options, its lines and its exit status.

    0    done                                    4    refused: state missing, damaged, foreign, incomplete, of
    2    wrong usage                                  another version or mode, or held by a live process
    3    stopped before the end, state intact    130  Ctrl-C     143  SIGTERM     137  killed

The last line on stdout says which and why. Lines are written unbuffered, so what was printed before a kill is there.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import signal
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import Literal, NoReturn

from harness import crash, demo
from harness.checkpoint import Checkpoint
from harness.errors import StateMissing, StateRefused, StopError, UsageError
from harness.json_store import JsonStore
from harness.ledger import Ledger
from harness.loop import TURNS_MAX, Result, run_agent, tool_names
from harness.model import Model, ScriptedModel
from harness.sqlite_store import SqliteStore
from harness.store import LASTING_FILES, Store
from harness.tool import Tool, tools_by_name

DONE, USAGE, STOPPED, REFUSED, CTRL_C, TERMINATED = 0, 2, 3, 4, 130, 143

_STORES: dict[str, type[Store]] = {"json": JsonStore, "sqlite": SqliteStore}

# How a run was started, by the model name in its checkpoint. Every other name is one of Claude's.
_STARTED_WITH = {"scripted": "--script FILE", demo.MODEL: "neither --live nor --script"}

_EPILOG = """\
exit status (the last line on stdout says which and why):
  0    done
  2    wrong usage; nothing was done
  3    stopped before the end; --resume goes on
  4    refused, nothing was changed: state missing, damaged, not ours, or owned by a live process
  130  Ctrl-C    143  SIGTERM    137  killed

examples:
  python -m harness                          the demonstration: sales notes -> report.txt, offline
  CRASH_AFTER=after-tool:3 python -m harness  kill it with SIGKILL when the third tool has run
  python -m harness --resume                 go on where the killed process was
  python -m harness --resume-or-start ...    for a supervisor: the same command on every restart
  python -m harness --live --task 'Tidy my inbox' --tools ./my_tools.py
                                             ask Claude (ANTHROPIC_API_KEY), with your own tools

environment:
  CRASH_AFTER=label[:n]  SIGKILL this process when the crash point is passed for the n-th time
  ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL  for --live
"""


class _Terminated(BaseException):
    """SIGTERM came. Not an Exception, so that no tool can take it for an error of its own."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    _open_standard_streams()
    try:
        options = _parser().parse_args(arguments)
    except UsageError as error:
        _print(f"[usage] {error}")
        return USAGE
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return _run(options)
    except UsageError as error:
        _print(f"[usage] {error}")
        return USAGE
    except StateRefused as error:
        _print(f"[refused] {error}")
        return REFUSED
    except StopError as error:
        _print(f"[stopped] {error}")
        return STOPPED
    except SystemExit as error:
        _print(f"[stopped] a tool raised SystemExit({error.code!r}); the state is as after a kill, --resume goes on")
        return STOPPED
    except KeyboardInterrupt:
        _print("[stopped] Ctrl-C; the state is as after a kill, --resume goes on")
        return CTRL_C
    except _Terminated:
        _print("[stopped] SIGTERM; the state is as after a kill, --resume goes on")
        return TERMINATED
    except BaseException as error:
        if isinstance(error, Exception):
            raise  # a bug of ours: whoever reports it needs the traceback
        _print(f"[stopped] a tool raised {error!r}; the state is as after a kill, --resume goes on")
        return STOPPED


def _run(options: argparse.Namespace) -> int:
    store_kind = options.store or _kind_found(options.state) or "json"
    if options.list_crash_points:
        for label, on_disk in crash.crash_points(store_kind).items():
            _print(f"{label:28} {on_disk}")
        return DONE
    _check_state(options.state)
    _check_options(options)
    store = _STORES[store_kind](options.state)
    if options.status:
        return _status(store)
    armed = _arm()
    status = _drive(options, store)
    if armed is not None and armed.passes < armed.n:
        _warn(f"CRASH_AFTER={armed.label}:{armed.n} was not reached: this life passed it {armed.passes} times")
    return status


def _drive(options: argparse.Namespace, store: Store) -> int:
    tools = _tools(options.tools)
    resume: bool | Literal["or-start"] = "or-start" if options.resume_or_start else options.resume
    if resume:
        _check_resume(options, store, tools)
    task = demo.TASK if options.task is None and resume is not True else options.task
    result = run_agent(
        _model(options),
        task,
        tools,
        store,
        resume=resume,
        turns_max=options.turns_max,
        started_marks=False if options.no_started_marks else None,
        say=_print,
        warn=_warn,
    )
    return _report(result)


def _report(result: Result) -> int:
    counters = f"turns={result.turns} tokens_used={result.tokens_used} unknowns={len(result.unknowns)}"
    if result.status == "done":
        _print(f"[done] {counters} answer={json.dumps(result.answer, ensure_ascii=False)}")
        return DONE
    _print(f"[stopped] {counters} reason: {result.reason}")
    return STOPPED


def _status(store: Store) -> int:
    """Say where the run stands, from the files alone; a live owner may be writing them at this moment."""
    checkpoint, ledger = store.glance()
    pending = ",".join(_pending(call.tool_use_id, call.name, ledger) for call in checkpoint.pending) or "none"
    unknowns = ",".join(ledger.unknowns()) or "none"
    _print(
        f"[status] {checkpoint.status} turn={checkpoint.turns} pending={pending} unknowns={unknowns}{_why(checkpoint)}"
    )
    return DONE


def _pending(tool_use_id: str, name: str, ledger: Ledger) -> str:
    entry = ledger.get(tool_use_id)
    return f"{name}({'not recorded' if entry is None else 'finished' if entry.finished else 'started'})"


def _why(checkpoint: Checkpoint) -> str:
    return f" reason: {checkpoint.stopped['why']}" if checkpoint.stopped else ""


def _check_state(directory: str) -> None:
    """Refuse a state directory that cannot be one, or cannot be looked into. Raises `UsageError`, `StateRefused`."""
    if not directory:
        raise UsageError("--state '' names no directory")
    try:
        mode = os.stat(directory).st_mode
    except FileNotFoundError:
        return  # a start makes it
    except PermissionError as cause:
        raise StateRefused(Path(directory), str(cause), "check its owner and permissions") from cause
    except OSError as cause:
        raise UsageError(f"--state {directory!r}: {cause.strerror}") from cause
    if not stat.S_ISDIR(mode):
        raise UsageError(f"--state {directory!r} is not a directory")
    if not os.access(directory, os.R_OK | os.X_OK):
        raise StateRefused(Path(directory), "may not be read", "check its owner and permissions")


def _check_options(options: argparse.Namespace) -> None:
    """Refuse combinations that cannot mean anything. Raises `UsageError`."""
    if options.resume and options.task is not None:
        raise UsageError(
            "--task with --resume: a run keeps the task it was started with; leave it out, or start afresh"
        )
    if options.live and options.script is not None:
        raise UsageError("--live and --script exclude each other: who is the model?")
    if options.model is not None and not options.live:
        raise UsageError(f"--model {options.model} needs --live: without it the model is a script")
    fresh = not options.resume and not options.status
    if fresh and options.tools is not None and options.task is None and options.script is None:
        raise UsageError("--tools needs a --task: the demonstration's task needs the demonstration's tools")
    if fresh and options.task is not None and not options.live and options.script is None:
        raise UsageError("--task needs a model that can do it: --live asks Claude, --script FILE plays a script")
    if options.live and not options.status and not os.environ.get("ANTHROPIC_API_KEY"):
        raise UsageError("--live needs ANTHROPIC_API_KEY in the environment")


def _check_resume(options: argparse.Namespace, store: Store, tools: Sequence[Tool]) -> None:
    """Refuse to resume a run with another model, or with none of its tools. Raises `UsageError`, `StateRefused`."""
    try:
        with store.owned(create=False):  # beside a live owner the two files may be of different moments
            checkpoint, _ = store.read()
    except StateMissing:
        if options.resume:
            raise
        return
    if checkpoint.status in ("done", "refusal"):
        return  # it says its end again and asks nobody
    model = checkpoint.prefix.get("model")
    if options.model not in (None, model):
        raise UsageError(f"--model {options.model}: the run was started with {model!r}; leave it out, or start afresh")
    started = _STARTED_WITH.get(str(model), "--live")
    asked = "--live" if options.live else _STARTED_WITH[demo.MODEL if options.script is None else "scripted"]
    if asked != started:
        raise UsageError(f"the run was started with {started} (model {model!r}): resume it the same way")
    names = tool_names(checkpoint)
    if names and not tools_by_name(tools).keys() & set(names):
        raise UsageError(f"the run was started with the tools {', '.join(names)}: pass them again with --tools")


def _model(options: argparse.Namespace) -> Model:
    if options.live:
        from harness.anthropic_model import DEFAULT_MODEL, AnthropicModel

        return AnthropicModel(DEFAULT_MODEL if options.model is None else options.model)
    return demo.model() if options.script is None else ScriptedModel.from_file(options.script)


def _tools(where: str | None) -> Sequence[Tool]:
    """The list `TOOLS` of a Python file or module. Raises `UsageError`, whatever the file does."""
    if where is None:
        return demo.TOOLS
    try:
        tools = _import(where).TOOLS
    except (KeyboardInterrupt, _Terminated):
        raise
    except BaseException as error:  # SystemExit among them: the file is at fault, no tool has run
        raise UsageError(f"--tools {where}: {type(error).__name__}: {error}") from error
    if not isinstance(tools, (list, tuple)):
        raise UsageError(f"--tools {where}: TOOLS is a {type(tools).__name__}, not a list of harness.Tool")
    tools_by_name(tools)
    return tools


def _import(where: str) -> ModuleType:
    if not where.endswith(".py"):
        return importlib.import_module(where)
    # Not under its own name: an `email.py` of tools must not be what the SDK gets when it imports `email`.
    spec = importlib.util.spec_from_file_location(f"tools_file_{Path(where).stem}", where)
    if spec is None or spec.loader is None:
        raise ImportError(f"{where} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _kind_found(directory: str) -> str | None:
    """The kind of store that keeps a run in `directory`, if one does."""
    # By any of its files: where one is missing, its store says so. os.path, since Path.exists raises where a directory
    # may not be looked into.
    found = ((kind, os.path.join(directory, name)) for kind, names in LASTING_FILES.items() for name in names)
    return next((kind for kind, path in found if os.path.exists(path)), None)


def _arm() -> crash.Armed | None:
    text = os.environ.get("CRASH_AFTER")
    if not text:
        return None
    try:
        armed = crash.Armed(*crash.parse_crash_after(text))
    except ValueError as error:
        raise UsageError(str(error)) from error
    crash.listen(armed)
    return armed


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not interrupt what is said of the first
    raise _Terminated


def _open_standard_streams() -> None:
    """Fill a closed stdin, stdout or stderr, so that no file of the run or of a tool gets its number and our lines."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _print(line: str) -> None:
    """One unbuffered line, behind what tools have printed so far; a reader that went away must not end a run."""
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
        _write(1, line)
    except BrokenPipeError:
        # What is still in Python's buffer would fail again at exit, and change the exit status.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        pass


def _warn(line: str) -> None:
    with suppress(OSError):
        _write(2, f"warning: {line}")


def _write(fd: int, line: str) -> None:
    one_line = line.replace("\r", " ").replace("\n", " ")
    os.write(fd, f"{one_line}\n".encode("utf-8", "backslashreplace"))


def _positive(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")


class _Parser(argparse.ArgumentParser):
    """Says what is wrong where everything else is said: in the last line on stdout."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; --help says what is allowed")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m harness",
        description="An agent that can be killed anywhere and resumed. Without options: the demonstration.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--resume", action="store_true", help="go on with the run in the state directory")
    how.add_argument("--resume-or-start", action="store_true", help="go on if a run is there, else start")
    how.add_argument("--status", action="store_true", help="print turn, pending calls and unknowns; change nothing")
    how.add_argument("--list-crash-points", action="store_true", help="print each label and what is on disk there")
    parser.add_argument("--state", metavar="DIR", default=".harness", help="state directory (default: %(default)s)")
    parser.add_argument("--store", choices=list(_STORES), help="default: the store that is there, else json")
    parser.add_argument("--task", metavar="TEXT", help="what to do (default: the demonstration's task)")
    parser.add_argument("--tools", metavar="PATH_OR_MODULE", help="a file or module with TOOLS, a list of harness.Tool")
    parser.add_argument("--script", metavar="FILE", help="the model is a JSON list of Messages API response bodies")
    parser.add_argument("--live", action="store_true", help="the model is Claude, through the SDK")
    parser.add_argument("--model", metavar="NAME", help="model name for --live (default: the current one)")
    parser.add_argument(
        "--turns-max",
        metavar="N",
        type=_positive,
        help=f"stop after N turns (default: {TURNS_MAX}); a resume may raise it",
    )
    parser.add_argument(
        "--no-started-marks", action="store_true", help="write no started marks: after a crash, more is unknown"
    )
    return parser
