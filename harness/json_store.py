"""The json store: `checkpoint.json` and `effects.json`, made to be read by a person.

Each file is one indented JSON object whose first line is a hash of all the rest, so that a file that is not as it
was written is told from one that is. Every save writes the whole file: its cost grows with the conversation (use the
sqlite store for long tasks). Making the text costs more than writing it, so each value's is made once: what a run has
saved it adds to, and never changes in place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from harness import checkpoint as checkpoint_module
from harness import durable
from harness import ledger as ledger_module
from harness.checkpoint import Checkpoint
from harness.errors import StateDamaged, StateForeign, StateIncomplete, StateRefused, StateVersion
from harness.ledger import BadLedger, Entry, Ledger, decode_entry
from harness.store import CHECK_PERMISSIONS, START_AFRESH, Store

_CHECKPOINT_FORMAT = "harness-checkpoint"
_LEDGER_FORMAT = "harness-effects"


class JsonStore(Store):
    """A run in two readable files."""

    kind = "json"

    def __init__(self, directory: Path | str) -> None:
        super().__init__(directory)
        self._fields, self._messages, self._calls = _Texts(depth=1), _Texts(depth=2), _Texts(depth=2)

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
        found = self.read()
        self.settle()
        return found

    def create(self, checkpoint: Checkpoint) -> None:
        # The ledger first: a scene is never on disk without the ledger whose silence is evidence.
        self._write_ledger(Ledger(checkpoint.run_id), "start-ledger")
        self.save(checkpoint, "start")

    def save(self, checkpoint: Checkpoint, write: str) -> None:
        fields = [self._fields.text(name, value) for name, value in checkpoint.head().items()]
        messages = (self._messages.text(position, m) for position, m in enumerate(checkpoint.messages))
        fields.append(f'"messages": [{_lines(messages)}]')
        durable.replace(self.checkpoint_path, encode(_CHECKPOINT_FORMAT, checkpoint_module.VERSION, fields), write)

    def record(self, ledger: Ledger, entry: Entry, write: str) -> None:
        self._write_ledger(ledger, write)

    def close(self) -> None:
        """Nothing stays open between two writes."""

    def _write_ledger(self, ledger: Ledger, write: str) -> None:
        calls = (self._calls.text(key, entry) for key, entry in ledger.entries.items())
        fields = [self._fields.text("run_id", ledger.run_id), f'"calls": {{{_lines(calls)}}}']
        durable.replace(self.ledger_path, encode(_LEDGER_FORMAT, ledger_module.VERSION, fields), write)

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


class _Texts:
    """The indented JSON of values `depth` levels down, kept for as long as a key stands for the same object."""

    def __init__(self, *, depth: int) -> None:
        self._newline = "\n" + "  " * depth
        self._known: dict[str | int, tuple[object, str]] = {}

    def text(self, key: str | int, value: object) -> str:
        """The text of `value`, as the member of an object if `key` is a str."""
        known = self._known.get(key)
        if known is None or known[0] is not value:
            raw = value.to_json() if isinstance(value, Entry) else value
            text = _indented(raw).replace("\n", self._newline)
            known = self._known[key] = (value, f"{_indented(key)}: {text}" if isinstance(key, str) else text)
        return known[1]


_indented = json.JSONEncoder(indent=2, ensure_ascii=False).encode


def _lines(texts: Iterable[str]) -> str:
    """What stands between the brackets of a field."""
    inside = ",\n    ".join(texts)
    return f"\n    {inside}\n  " if inside else ""


def encode(format_name: str, version: int, fields: Iterable[str]) -> bytes:
    """The bytes of a file: readable JSON behind a line with the hash of everything after that line."""
    lines = ",\n  ".join((f'"format": "{format_name}"', f'"version": {version}', *fields))
    return with_hash(f"  {lines}\n}}\n".encode())


def with_hash(rest: bytes) -> bytes:
    """The bytes of a file whose lines after the first two are `rest`."""
    return b'{\n  "sha256": "%s",\n%s' % (hashlib.sha256(rest).hexdigest().encode(), rest)


def _read(path: Path, format_name: str, version: int) -> dict[str, Any] | None:
    """The value that `encode` was given, None if there is no file. Raises a `StateRefused`."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as cause:
        raise StateRefused(path, f"cannot be read: {cause}", CHECK_PERMISSIONS) from cause
    try:
        value = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as cause:
        problem = "is empty" if not data else f"is not the JSON that was written ({cause})"
        raise StateDamaged(path, problem, START_AFRESH) from cause
    if not isinstance(value, dict) or value.pop("format", None) != format_name:
        raise StateForeign(path, f"is not a {format_name} file", "move it away, or use another directory")
    if (found := value.pop("version", None)) != version:
        raise StateVersion(path, f"is of version {found!r}, this release reads {version}", "use the release it is of")
    value.pop("sha256", None)
    if data != with_hash(data.partition(b",\n")[2]):
        raise StateDamaged(path, "is not as it was written (its hash differs)", START_AFRESH)
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
