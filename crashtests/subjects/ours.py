"""Our own harness, the reference subject: it must be whole in every cell."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from crashtests.schedule import HINDRANCES, Kill, Schedule
from crashtests.scripted import ApiRefused, ScriptedModel
from crashtests.subject import Ending, Life, Scene, Subject
from crashtests.world import WorldTool


class Harness(Subject):
    """`harness.run_agent` on the store and the protocol that the schedule names."""

    name = "harness"
    strict = True
    stores: ClassVar[tuple[str, ...]] = ("json", "sqlite")
    protocols: ClassVar[tuple[bool, ...]] = (True, False)
    settles_exactly = True
    limits_turns = True
    hindrances = frozenset(HINDRANCES)
    moments = tuple(
        Kill(label)
        for label in (
            "before-model",
            "after-save-a",
            "before-effect",
            "after-effect",
            "after-effect-write",
            "after-save-b",
        )
    )
    model_points = False
    warm_ups = 10

    def __init__(self) -> None:
        self._last: tuple[Path | None, Any] = (None, None)

    @property
    def power_stores(self) -> tuple[str, ...]:
        from crashtests.powerloss import sqlite_syncs  # loads ctypes, for which every fork would pay

        return ("json",) if sqlite_syncs.unavailable() else ("json", "sqlite")

    def labels(self, schedule: Schedule) -> Mapping[str, str]:
        from harness.crash import crash_points

        return crash_points(schedule.store)

    def prepare(self) -> None:
        import harness.json_store
        import harness.loop
        import harness.sqlite_store  # noqa: F401  # imported before the fork, so that no life has to

    def live(self, life: Life) -> Ending:
        import harness

        harness.crash.listen(life.point)
        try:
            result = harness.run_agent(
                self.model(life.model),
                None if life.resume else life.task,
                [_tool(tool, revised=life.resume) for tool in life.tools],
                _store(life.schedule, life.state_dir),
                resume=life.resume,
                turns_max=None if life.resume else life.schedule.turns_max,
                server_tools=life.server_tools,
                # A run keeps its protocol: a resume that does not say which must go on with the same.
                started_marks=None if life.resume else life.schedule.marks,
                warn=print,
            )
        except harness.StateMissing as error:
            return Ending("missing", str(error))
        except harness.StateRefused as error:
            return Ending("refused", str(error))
        except SystemExit as error:
            return Ending("stopped", f"SystemExit: {error}")
        except KeyboardInterrupt:
            return Ending("stopped", "Ctrl-C")
        says = {name: getattr(result, name) for name in ("turns", "tokens_used", "answer", "unknowns")}
        return Ending(result.status, result.reason, result=says)

    def model(self, scripted: ScriptedModel) -> Any:
        """The scripted model in the form that the harness takes."""
        return _Model(scripted)

    def scene(self, state_dir: Path) -> Scene | None:
        loaded = _read(state_dir)
        self._last = (state_dir, loaded)
        if loaded is None:
            return None
        checkpoint, ledger = loaded
        return Scene(
            messages=checkpoint.messages,
            pending=tuple(call.tool_use_id for call in checkpoint.pending),
            turns=checkpoint.turns,
            tokens_used=checkpoint.tokens_used,
            status=checkpoint.status,
            answer=checkpoint.answer,
            ledger={e.tool_use_id: "finished" if e.finished else "started" for e in ledger.entries.values()},
            set_aside=sum(
                _read(path) is not None for path in state_dir.glob("set-aside-*") if path.suffix != ".unfinished"
            ),
        )

    def hinder(self, how: str, state_dir: Path) -> AbstractContextManager[object]:
        if how == "held":
            return _held(state_dir)
        if (state_dir / "checkpoint.json").exists():
            _SPOIL_JSON[how](state_dir)
        else:
            _spoil_database(how, state_dir / "state.sqlite3")
        return nullcontext()

    def state_key(self, state_dir: Path) -> str | None:
        """Every file as it is, temporary ones too, but for the random run id; of a database, what is in it."""
        # The executor asks for the scene and then for the key of one moment, and reading a store takes its time.
        loaded = self._last[1] if self._last[0] == state_dir else _read(state_dir)
        run_id = loaded[1].run_id if loaded else ""
        files = []
        for path in sorted(state_dir.rglob("*")):
            if path.is_file() and not path.name.startswith("state.sqlite3"):
                files.append(
                    (path.name, re.sub(rb'"sha256": "\w+"', b"", path.read_bytes()).replace(run_id.encode(), b""))
                )
            else:
                files.append((path.name, b""))
        return repr((files, loaded)).replace(run_id, "") if run_id else repr(files)


class Json(Harness):
    """The default configuration alone."""

    name = "ours, json"
    stores = ("json",)
    protocols = (True,)


class JsonWithoutMarks(Json):
    """Without started marks: whatever was pending may have begun."""

    name = "ours, json, no marks"
    protocols = (False,)


class Sqlite(Json):
    """The store for long tasks."""

    name = "ours, sqlite"
    stores = ("sqlite",)


class SqliteWithoutMarks(Sqlite):
    """The store for long tasks, without started marks."""

    name = "ours, sqlite, no marks"
    protocols = (False,)


def _read(state_dir: Path) -> Any:
    """Checkpoint and ledger of whichever store is there, None if there is nothing that can be loaded."""
    import harness

    for store in (harness.JsonStore(state_dir), harness.SqliteStore(state_dir)):
        try:
            return store.read()
        except harness.StateRefused:
            continue
    return None


@contextmanager
def _held(state_dir: Path) -> Iterator[None]:
    """This process, which is alive, owns the run."""
    descriptor = os.open(state_dir, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _replace_ledger(state_dir: Path) -> None:
    """The ledger of another run, whose silence would be taken for evidence."""
    import harness

    checkpoint, _ = harness.JsonStore(state_dir).read()
    with tempfile.TemporaryDirectory() as other:
        harness.JsonStore(other).create(replace(checkpoint, run_id="another"))
        shutil.copyfile(Path(other) / "effects.json", state_dir / "effects.json")


def _raise_version(path: Path) -> None:
    """A file that is whole, and that a later release might have written."""
    from harness.json_store import with_hash

    path.write_bytes(with_hash(path.read_bytes().partition(b",\n")[2].replace(b'"version": 1', b'"version": 99', 1)))


_SPOIL_JSON: dict[str, Callable[[Path], None]] = {
    "damaged": lambda state_dir: _cut(state_dir / "checkpoint.json"),
    "incomplete": lambda state_dir: (state_dir / "effects.json").unlink(),
    "foreign": _replace_ledger,
    "version": lambda state_dir: _raise_version(state_dir / "checkpoint.json"),
}

_SPOIL_DATABASE = {
    "damaged": "SELECT * FROM messages",  # any look at it, so that closing empties the log
    "incomplete": "DELETE FROM messages WHERE key = (SELECT max(key) FROM messages)",
    "foreign": "PRAGMA application_id=1",
    "version": "PRAGMA user_version=99",
}


def _spoil_database(how: str, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(_SPOIL_DATABASE[how])
    if how == "damaged":
        _cut(path)


class _Model:
    """The scripted model as a `harness.Model`."""

    def __init__(self, scripted: ScriptedModel) -> None:
        self.name = scripted.name
        self._scripted = scripted

    def ask(self, request: dict[str, Any]) -> Any:
        import harness

        try:
            return self._scripted.ask(request)
        except ApiRefused as refused:
            raise harness.ModelFailed(str(refused)) from refused


def _store(schedule: Schedule, state_dir: Path) -> Any:
    import harness

    return (harness.JsonStore if schedule.store == "json" else harness.SqliteStore)(state_dir)


def _tool(tool: WorldTool, *, revised: bool) -> Any:
    """The tool, `revised` with other words in its definition: the request prefix must stay what it was."""
    import harness

    def verify(input: dict[str, Any], tool_use_id: str) -> Any:
        verdict = tool.world.verify(tool.kind, tool_use_id)
        if verdict != "done":
            return harness.Verdict(verdict)
        # A tool that raises after its effect is found to be done, and to have failed.
        return harness.Done(tool.kind.shown, is_error=True) if tool.kind.raises else harness.Done(tool.kind.output)

    return harness.Tool(
        tool.name,
        f"{tool.description} (revised)" if revised else tool.description,
        tool.input_schema,
        lambda input: tool.run(harness.current_tool_use_id(), input),
        effect=harness.Effect(tool.kind.effect),
        verify=verify if tool.kind.verify else None,
    )
