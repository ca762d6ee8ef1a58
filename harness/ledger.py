"""The ledger: what is durably known of each call, by `tool_use_id`.

A call has no entry, a *started* entry (the tool may have begun, so its effect may have happened), or a *finished*
one that holds its outcome. Finished is written only when there is a real outcome and is never overwritten. An entry
carries the tool's name and a hash of the raw input, so that it cannot pass for another call's.

This module owns the entries and their rules; stores make them durable.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from harness.checkpoint import Block, Call
from harness.outcome import Outcome

VERSION = 1


class BadLedger(ValueError):
    """The value is not a ledger, or not one that belongs to these messages. Stores add file and remedy."""


class Settled(StrEnum):
    """How a finished call came to its outcome."""

    RUN = "run"
    """The tool ran and returned or raised."""
    VERIFIED = "verified"
    """Its process died; `verify` said that the effect had happened, and with what outcome."""
    UNKNOWN = "unknown"
    """Its process died and nobody can know: the model was told so."""
    NOT_RUN = "not_run"
    """There was no such tool when the call was made, or it was gone before the call could begin."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one call; `outcome` and `settled` are None while it has only started."""

    tool_use_id: str
    name: str
    input_sha256: str
    outcome: Outcome | None = None
    settled: Settled | None = None

    @property
    def finished(self) -> bool:
        return self.outcome is not None

    def to_json(self) -> dict[str, Any]:
        """The entry without its id, as JSON values."""
        entry: dict[str, Any] = {"name": self.name, "input_sha256": self.input_sha256, "state": "started"}
        if self.outcome is None:
            return entry
        outcome = {"content": self.outcome.content, "is_error": self.outcome.is_error}
        return entry | {"state": "finished", "settled": self.settled, "outcome": outcome}


def input_sha256(value: Any) -> str:
    """Hash of a raw input, the same for equal JSON values whatever their formatting or key order."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def started(call: Call) -> Entry:
    """The entry that says: this call may have begun."""
    return Entry(call.tool_use_id, call.name, input_sha256(call.input))


def finished(call: Call, outcome: Outcome, settled: Settled) -> Entry:
    """The entry that says: this call came to `outcome`."""
    return Entry(call.tool_use_id, call.name, input_sha256(call.input), outcome, settled)


@dataclass(slots=True)
class Ledger:
    """The entries of one run, in the order in which they were first written."""

    run_id: str
    entries: dict[str, Entry] = field(default_factory=dict)

    def get(self, tool_use_id: str) -> Entry | None:
        return self.entries.get(tool_use_id)

    def put(self, entry: Entry) -> None:
        """Add an entry or finish a started one. Raises `BadLedger` if the call has finished already."""
        old = self.entries.get(entry.tool_use_id)
        if old is not None and old.finished:
            raise BadLedger(f"call {entry.tool_use_id!r} has finished already; its outcome is never overwritten")
        self.entries[entry.tool_use_id] = entry

    def unknowns(self) -> list[str]:
        """Ids of the calls whose state nobody knows."""
        return [e.tool_use_id for e in self.entries.values() if e.settled is Settled.UNKNOWN]


def decode_entry(tool_use_id: str, value: Any) -> Entry:
    """An entry from what `Entry.to_json` made. Raises `BadLedger`."""
    try:
        if value["state"] == "started" and value.keys() == {"name", "input_sha256", "state"}:
            return Entry(tool_use_id, str(value["name"]), str(value["input_sha256"]))
        if value["state"] == "finished":
            content, is_error = value["outcome"]["content"], value["outcome"]["is_error"]
            if isinstance(content, str | list) and content and isinstance(is_error, bool):
                outcome, settled = Outcome(content, is_error), Settled(value["settled"])
                return Entry(tool_use_id, str(value["name"]), str(value["input_sha256"]), outcome, settled)
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    raise BadLedger(f"entry {tool_use_id!r} is {value!r}")


def check_belongs(ledger: Ledger, calls: Iterable[Block]) -> None:
    """Hold every entry against the `tool_use` block that it claims to know. Raises `BadLedger`."""
    blocks = {b["id"]: b for b in calls}
    for entry in ledger.entries.values():
        block = blocks.get(entry.tool_use_id)
        if block is None:
            raise BadLedger(f"entry {entry.tool_use_id!r} is of a call that no message makes")
        if entry.name != block["name"]:
            raise BadLedger(f"entry {entry.tool_use_id!r} is of tool {entry.name!r}, the call of {block['name']!r}")
        if entry.input_sha256 != input_sha256(block["input"]):
            raise BadLedger(f"entry {entry.tool_use_id!r} is of another input than the call's")
