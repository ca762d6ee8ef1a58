"""From the records of a subject to its verdicts: pure functions over raw evidence, which is all that they read.

A cell says of one guarantee: `holds` (0 of N runs broke it), `broken` (n of N, with the smallest schedule), `cannot` be
judged (why), or `invalid`: kills did not fire where they were planned, so that something else was seen than was meant.
Parts of the plan are valid or invalid as a whole; an invalid one counts for nothing, and is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from crashtests.matrix.judge import COLUMNS, ONE_OWNER
from crashtests.matrix.plan import CONTROL, KILLS, PARTS, RIVALS
from crashtests.matrix.statistics import wilson
from crashtests.schedule import parse
from crashtests.shrink import order

Record = dict[str, Any]
Cell = dict[str, Any]

CONFIRM = "confirm"


def cells(name: str, records: Sequence[Record], cannot: dict[str, str], documents: dict[str, str]) -> dict[str, Cell]:
    """The cell of every guarantee. `name`: the subject, as a replay is told it."""
    found = {}
    for guarantee in COLUMNS:
        if guarantee in cannot:
            cell: Cell = {"verdict": "cannot", "why": cannot[guarantee]}
        else:
            parts = (RIVALS,) if guarantee == ONE_OWNER else KILLS
            cell = _cell(name, guarantee, [record for record in records if record["part"] in parts], records)
        found[guarantee] = cell | ({"documented": documents[guarantee]} if guarantee in documents else {})
    return found


def _cell(name: str, guarantee: str, runs: Sequence[Record], records: Sequence[Record]) -> Cell:
    parts = {part: [r for r in runs if r["part"] == part] for part in dict.fromkeys(r["part"] for r in runs)}
    missed = {part: lines for part, of_part in parts.items() if (lines := never_fired(of_part)) and part != RIVALS}
    fired = [record for record in runs if record["fired"] and record["part"] not in missed]
    cell: Cell = {"n": sum(guarantee in record["broken"] for record in fired), "of": len(fired)}
    if missed:
        cell["invalid_parts"] = missed
    if not fired:
        return cell | ({"verdict": "invalid"} if missed else {"verdict": "cannot", "why": _why_nothing(runs)})
    if not cell["n"]:
        return cell | {"verdict": "holds", "rate_at_most": round(wilson(0, len(fired))[1], 4)}
    return cell | {"verdict": "broken", "smallest": _smallest(name, guarantee, fired, records)}


def never_fired(runs: Iterable[Record]) -> list[str]:
    """Schedules of which no run had its kills where they were planned."""
    runs = list(runs)
    fired = {record["planned"] for record in runs if record["fired"]}
    return sorted({record["planned"] for record in runs if not record["fired"]} - fired)


def _why_nothing(runs: Sequence[Record]) -> str:
    faults = sorted({record["fault"].splitlines()[0] for record in runs if record["fault"]})
    return "; ".join(faults) or "no run of it came about: nothing was left to resume, or the time was up"


def _smallest(name: str, guarantee: str, fired: Sequence[Record], records: Sequence[Record]) -> dict[str, Any]:
    """The smallest schedule that broke it; of runs with the same one the first."""
    first = min((r for r in fired if guarantee in r["broken"]), key=lambda r: order(parse(r["planned"])))
    line = first["planned"]
    smallest = {"schedule": line, "says": first["broken"][guarantee][0]}
    if guarantee == ONE_OWNER:
        hold = first["hold"]
        command = f"python -m crashtests rivals '{line}' --hold {hold} --subject {name}"
        return smallest | {"says": "; ".join(first["broken"][guarantee]), "hold": hold, "replay": command}
    again = [r for r in records if r["part"] == CONFIRM and r["planned"] == line]
    n = sum(guarantee in record["broken"] for record in again)
    always = n == len(again)
    command = f"python -m crashtests replay '{line}' --subject {name}{'' if always else ' --times 50'}"
    smallest |= {"replay": command, "again": {"n": n, "of": len(again)}}
    if again:
        smallest["again"]["interval"] = [round(bound, 4) for bound in wilson(n, len(again))]
    return smallest


def by_part(records: Sequence[Record]) -> dict[str, dict[str, int]]:
    """For each part of the plan: runs, those that broke anything, and planned kills that never fired."""
    found = {}
    for part in PARTS:
        runs = [record for record in records if record["part"] == part]
        fired = [record for record in runs if record["fired"]]
        found[part] = {
            "n": sum(bool(record["broken"]) for record in fired),
            "of": len(fired),
            # A resume that never came to where it should wait is no run of two.
            "never_fired": len(never_fired(runs)) if part != RIVALS else 0,
        }
    return found


def control(records: Sequence[Record]) -> list[str]:
    """What is broken without any kill, in sentences: nothing else can be trusted of such a subject."""
    runs = [record for record in records if record["part"] == CONTROL]
    return [
        f"'{record['planned']}': {record['fault'] or says}"
        for record in runs
        for says in ([s for told in record["broken"].values() for s in told] or ([""] if record["fault"] else []))
    ]
