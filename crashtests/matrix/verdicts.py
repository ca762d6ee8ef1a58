"""From the records of a subject to its verdicts: pure functions over raw evidence, which is all that they read.

A cell says of one guarantee: `holds` (0 of N runs broke it), `broken` (n of N, with the smallest schedule), `cannot` be
judged (why), or `invalid`: kills did not fire where they were planned, so that something else was seen than was meant.
Parts of the plan are valid or invalid as a whole; an invalid one counts for nothing, and is named.

The schedule that stands for a broken cell is one that shows it again: of those that broke it, in order of size, the
first that did so in half of its repetitions; if none did, the one that did so most often.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from crashtests.matrix.judge import COLUMNS, ONE_OWNER
from crashtests.matrix.plan import CONTROL, DELAYED, KILLS, MAY_MISS, PARTS, RIVALS
from crashtests.matrix.statistics import wilson
from crashtests.schedule import parse
from crashtests.shrink import order

Record = dict[str, Any]
Cell = dict[str, Any]

CONFIRM = "confirm"


@dataclass(frozen=True, slots=True)
class Again:
    """How often a schedule broke a guarantee when it was run again."""

    schedule: str
    n: int
    of: int

    @property
    def shows(self) -> bool:
        """Whether one can rely on seeing it."""
        return 0 < self.of <= 2 * self.n

    @property
    def rate(self) -> float:
        return self.n / self.of if self.of else 0.0


def cells(
    name: str, records: Sequence[Record], cannot: dict[str, str], documents: dict[str, str], *, races: bool = False
) -> dict[str, Cell]:
    """The cell of every guarantee. `name`: the subject, as a replay is told it; `races`: what it leaves is chance."""
    found = {}
    for guarantee in COLUMNS:
        if guarantee in cannot:
            cell: Cell = {"verdict": "cannot", "why": cannot[guarantee]}
        else:
            parts = (RIVALS,) if guarantee == ONE_OWNER else KILLS
            runs = [record for record in records if record["part"] in parts]
            cell = _cell(name, guarantee, runs, records, races=races)
        found[guarantee] = cell | ({"documented": documents[guarantee]} if guarantee in documents else {})
    return found


def _cell(name: str, guarantee: str, runs: Sequence[Record], records: Sequence[Record], *, races: bool) -> Cell:
    missed = _missed(runs)
    fired = [record for record in runs if record["fired"] and record["part"] not in missed]
    cell: Cell = {"n": sum(guarantee in record["broken"] for record in fired), "of": len(fired)}
    if missed:
        cell["invalid_parts"] = missed
    if not fired:
        return cell | ({"verdict": "invalid"} if missed else {"verdict": "cannot", "why": _why_nothing(runs)})
    if not cell["n"]:
        return cell | {"verdict": "holds", "rate_at_most": round(wilson(0, len(fired))[1], 4)}
    if guarantee == ONE_OWNER:
        return cell | {"verdict": "broken", "smallest": _smallest_of_two(name, fired, races=races)}
    return cell | {"verdict": "broken", "smallest": _smallest(name, guarantee, records, races=races)}


def _missed(runs: Sequence[Record]) -> dict[str, list[str]]:
    """Each part that is invalid, with the schedules that make it so."""
    parts = {part: [r for r in runs if r["part"] == part] for part in dict.fromkeys(r["part"] for r in runs)}
    return {part: lines for part, of_part in parts.items() if (lines := never_fired(of_part)) and part not in MAY_MISS}


def never_fired(runs: Iterable[Record]) -> list[str]:
    """Schedules of which no run had its kills where they were planned."""
    runs = list(runs)
    fired = {record["planned"] for record in runs if record["fired"]}
    return sorted({record["planned"] for record in runs if not record["fired"]} - fired)


def _why_nothing(runs: Sequence[Record]) -> str:
    faults = sorted({record["fault"].splitlines()[0] for record in runs if record["fault"]})
    return "; ".join(faults) or "no run of it came about: nothing was left to resume, or the time was up"


def candidates(records: Sequence[Record], guarantee: str) -> list[str]:
    """The schedules that broke a guarantee, as they happened: smallest first, of one size those that did so most."""
    runs = [record for record in records if record["part"] in KILLS]
    missed = _missed(runs)
    seen: dict[str, list[bool]] = {}
    for record in runs:
        if record["fired"] and record["part"] not in missed:
            seen.setdefault(record["happened"], []).append(guarantee in record["broken"])
    broke = [line for line, breaks in seen.items() if any(breaks)]
    return sorted(broke, key=lambda line: (*order(parse(line)), -sum(seen[line]) / len(seen[line])))


def again(records: Iterable[Record], guarantee: str, line: str) -> Again:
    """What came of running a schedule again."""
    runs = [record for record in records if record["part"] == CONFIRM and record["planned"] == line]
    return Again(line, sum(r["fired"] and guarantee in r["broken"] for r in runs), len(runs))


def _smallest(name: str, guarantee: str, records: Sequence[Record], *, races: bool) -> dict[str, Any]:
    """The schedule that stands for a broken cell, how often it broke again, and the `others`, tried and found worse."""
    tried = [again(records, guarantee, line) for line in candidates(records, guarantee)]
    best = next((each for each in tried if each.shows), None)
    others = tried[: tried.index(best)] if best else tried
    best = best or max(tried, key=lambda each: each.rate)
    line = best.schedule
    says = next(r["broken"][guarantee][0] for r in records if r["happened"] == line and guarantee in r["broken"])
    # On a subject that races what broke every time so far may yet find another state than it did then.
    always = best.of and best.n == best.of and not races
    until = f" --times 50 --guarantee {guarantee}"
    smallest = {
        "schedule": line,
        "says": says,
        "replay": f"python -m crashtests replay '{line}' --subject {name}{'' if always else until}",
        "again": {"n": best.n, "of": best.of},
        "others": [
            {"schedule": each.schedule, "n": each.n, "of": each.of} for each in others if each.of and each != best
        ],
    }
    if best.of:
        smallest["again"]["interval"] = [round(bound, 4) for bound in wilson(best.n, best.of)]
    return smallest


def _smallest_of_two(name: str, fired: Sequence[Record], *, races: bool) -> dict[str, Any]:
    """The smallest schedule with a resume beside another that is held."""
    first = min((r for r in fired if r["broken"]), key=lambda r: order(parse(r["planned"])))
    line, hold = first["planned"], first["hold"]
    command = f"python -m crashtests rivals '{line}' --hold {hold} --subject {name}{' --times 50' if races else ''}"
    return {"schedule": line, "says": "; ".join(first["broken"][ONE_OWNER]), "hold": hold, "replay": command}


def by_part(records: Sequence[Record]) -> dict[str, dict[str, int]]:
    """For each part of the plan: runs, those that broke anything, and planned kills that never fired."""
    found = {}
    for part in PARTS:
        runs = [record for record in records if record["part"] == part]
        fired = [record for record in runs if record["fired"]]
        found[part] = {
            "n": sum(bool(record["broken"]) for record in fired),
            "of": len(fired),
            "never_fired": len(never_fired(runs)) if part not in MAY_MISS else 0,
            "too_late": len(never_fired(runs)) if part == DELAYED else 0,
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
