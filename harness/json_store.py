"""The json store: `checkpoint.json` and `effects.json`, made to be read by a person.

Each file is one indented JSON object whose first line is a hash of all the rest, so that a file that is not as it
was written is told from one that is. Every save writes the whole file: its cost grows with the conversation (use the
sqlite store for long tasks).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NoReturn

from harness import checkpoint as checkpoint_module
from harness import durable
from harness import ledger as ledger_module
from harness.checkpoint import Checkpoint
from harness.errors import StateDamaged, StateForeign, StateIncomplete, StateRefused, StateVersion
from harness.ledger import BadLedger, Entry, Ledger, decode_entry
from harness.store import START_AFRESH, Store

_CHECKPOINT_FORMAT = "harness-checkpoint"
_LEDGER_FORMAT = "harness-effects"


class JsonStore(Store):
    """A run in two readable files."""

    kind = "json"

    @property
    def ledger_path(self) -> Path:
        return self.directory / "effects.json"

    def read(self) -> tuple[Checkpoint, Ledger]:
        scene = _read(self.checkpoint_path, _CHECKPOINT_FORMAT, checkpoint_module.VERSION)
        raw_ledger = _read(self.ledger_path, _LEDGER_FORMAT, ledger_module.VERSION)
        if scene is None:
            self._refuse_without_checkpoint(raw_ledger)
        if raw_ledger is None:
            raise StateIncomplete(self.ledger_path, "the ledger of this run is missing", START_AFRESH)
        ledger = self._decode_ledger(raw_ledger)
        return self.decode(scene, scene.pop("messages", None), ledger), ledger

    def load(self) -> tuple[Checkpoint, Ledger]:
        return self.read()

    def create(self, checkpoint: Checkpoint) -> None:
        # The ledger first: a scene is never on disk without the ledger whose silence is evidence.
        self._write_ledger(Ledger(checkpoint.run_id), "start-ledger")
        self.save(checkpoint, "start")

    def save(self, checkpoint: Checkpoint, write: str) -> None:
        scene = checkpoint.head() | {"messages": checkpoint.messages}
        data = encode(_CHECKPOINT_FORMAT, checkpoint_module.VERSION, scene)
        durable.replace(self.checkpoint_path, data, write)

    def record(self, ledger: Ledger, entry: Entry, write: str) -> None:
        self._write_ledger(ledger, write)

    def close(self) -> None:
        """Nothing stays open between two writes."""

    def _write_ledger(self, ledger: Ledger, write: str) -> None:
        calls = {entry.tool_use_id: entry.to_json() for entry in ledger.entries.values()}
        data = encode(_LEDGER_FORMAT, ledger_module.VERSION, {"run_id": ledger.run_id, "calls": calls})
        durable.replace(self.ledger_path, data, write)

    def _decode_ledger(self, value: dict[str, Any]) -> Ledger:
        calls, run_id = value.get("calls"), value.get("run_id")
        if value.keys() != {"calls", "run_id"} or not isinstance(calls, dict) or not isinstance(run_id, str):
            raise StateDamaged(self.ledger_path, "not a ledger", START_AFRESH)
        try:
            return Ledger(run_id, {key: decode_entry(key, entry) for key, entry in calls.items()})
        except BadLedger as cause:
            raise StateDamaged(self.ledger_path, str(cause), START_AFRESH) from cause

    def _refuse_without_checkpoint(self, raw_ledger: dict[str, Any] | None) -> NoReturn:
        """Nothing had run if there is no ledger, an empty one, or one that a fresh start was moving away."""
        if raw_ledger is None:
            self.check_kind()
            raise self.missing("there is no checkpoint")
        if not self._decode_ledger(raw_ledger).entries:
            raise self.missing("the start of this run died before its scene was saved; nothing was run")
        if self.being_set_aside():
            raise self.missing("a fresh start died while it set the earlier run aside")
        raise StateIncomplete(self.checkpoint_path, "the checkpoint of this run is missing", START_AFRESH)


def encode(format_name: str, version: int, value: dict[str, Any]) -> bytes:
    """The bytes of a file: readable JSON behind a line with the hash of everything after that line."""
    body = json.dumps({"format": format_name, "version": version, **value}, indent=2, ensure_ascii=False)
    rest = f"{body[2:]}\n".encode()
    return b'{\n  "sha256": "%s",\n%s' % (hashlib.sha256(rest).hexdigest().encode(), rest)


def _read(path: Path, format_name: str, version: int) -> dict[str, Any] | None:
    """The value that `encode` was given, None if there is no file. Raises a `StateRefused`."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as cause:
        raise StateRefused(path, f"cannot be read: {cause}", "check its owner and permissions") from cause
    try:
        value = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as cause:
        problem = "is empty" if not data else f"is not the JSON that was written ({cause})"
        raise StateDamaged(path, problem, START_AFRESH) from cause
    if not isinstance(value, dict) or value.pop("format", None) != format_name:
        raise StateForeign(path, f"is not a {format_name} file", "move it away, or use another directory")
    if (found := value.pop("version", None)) != version:
        raise StateVersion(path, f"is of version {found!r}, this release reads {version}", "use the release it is of")
    digest = value.pop("sha256", None)
    if digest != hashlib.sha256(data.partition(b",\n")[2]).hexdigest():
        raise StateDamaged(path, "is not as it was written (its hash differs)", START_AFRESH)
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
