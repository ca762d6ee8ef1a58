"""The campaign of one process: executes schedules, judges them once each, repeats some, and counts what was covered.

Outcomes are remembered by canonical schedule. One schedule in `REPEAT_EVERY` is executed twice and one in `COLD_EVERY`
again in cold interpreters, chosen by the schedule itself, so that it is the same ones everywhere: their traces must be
equal. What is counted is counted by distinct schedule, so that the counts do not depend on how work was divided.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from crashtests.contract import Violation, violations
from crashtests.evidence import Evidence, trace
from crashtests.execute import Executor
from crashtests.expect import Foretold, foretell
from crashtests.schedule import Schedule

REPEAT_EVERY = 20
COLD_EVERY = 200

# Which part a schedule counts for that several have covered: the first of these, then any other.
_PARTS = ("sweep", "power", "regressions", "machine", "wire", "canary", "replay", "shrink")


class Nondeterminism(AssertionError):
    """The same schedule gave two traces, so nothing that was seen of it can be trusted."""


@dataclass(slots=True)
class Tally:
    """What was covered, by distinct schedule, as JSON values, so that workers' tallies can be merged.

    `schedules`: line -> {"part": "sweep" or "machine" or ..., "kills": [[store, label, "first" or "resume"]],
    "losses": [[store, label, loss, whether it took anything away]], "exposed": [[store, label]] (what lives passed that
    lost power in the end), "passed": triples like those of the kills, "hindered": [[store, how]], "rows":
    {row: count}, "overruns": n}. The rest are rates: `lives`, `seconds`, `repeated`, `cold`.
    """

    schedules: dict[str, dict[str, Any]] = field(default_factory=dict)
    rates: Counter[str] = field(default_factory=Counter)

    def add(self, line: str, record: dict[str, Any]) -> None:
        """Count a schedule. One that several parts have covered counts once, the same in whatever order they come."""
        known = self.schedules.get(line, record)
        first = min(known, record, key=lambda each: _rank(each["part"]))
        self.schedules[line] = {**first, "overruns": max(known["overruns"], record["overruns"])}

    def merge(self, other: dict[str, Any]) -> None:
        """Add what `to_json` of another tally gave."""
        for line, record in other["schedules"].items():
            self.add(line, record)
        self.rates.update(other["rates"])

    def to_json(self) -> dict[str, Any]:
        return {"schedules": self.schedules, "rates": dict(self.rates)}


def _rank(part: str) -> tuple[int, str]:
    return _PARTS.index(part) if part in _PARTS else len(_PARTS), part


class Campaign:
    """Judges schedules on one subject. `part` names the part of the suite that asks, for the tally."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.tally = Tally()
        self._known: dict[str, list[Violation]] = {}

    def check(
        self, schedule: Schedule, part: str, *, kill_at: int | None = None, loss: str = ""
    ) -> tuple[Evidence, list[Violation]]:
        """Execute and judge. `kill_at`, `loss`: see `Executor.execute`. Raises `SubjectFault` and `Nondeterminism`."""
        begin, lives = time.perf_counter(), self.executor.lives
        evidence = self.executor.execute(schedule, kill_at=kill_at, loss=loss)
        foretold = foretell(evidence) if self.executor.subject.settles_exactly else None
        line = str(evidence.schedule)
        if line not in self._known:
            reference = self.executor.reference(evidence.schedule)
            self._known[line] = violations(evidence, reference, self.executor.subject, foretold)
            self._repeat(evidence)
        self._record(evidence, foretold, part)
        self.tally.rates.update(
            {"lives": self.executor.lives - lives, "microseconds": int(1e6 * (time.perf_counter() - begin))}
        )
        return evidence, self._known[line]

    def known(self, schedule: Schedule) -> list[Violation] | None:
        """What is remembered of a schedule, None if it was never executed."""
        return self._known.get(str(schedule))

    def violations(self, schedule: Schedule, part: str) -> list[Violation]:
        """`check`, unless the schedule has been executed before."""
        known = self.known(schedule)
        if known is None:
            known = self._known[str(schedule)] = self.check(schedule, part)[1]
        return known

    def _repeat(self, evidence: Evidence) -> None:
        if self.executor.subject.races or self.executor.subject.parallel:
            return  # it has said that two traces may differ
        number = zlib.crc32(str(evidence.schedule).encode())
        for every, cold, name in ((REPEAT_EVERY, False, "repeated"), (COLD_EVERY, True, "cold")):
            if number % every == 0:
                self.tally.rates[name] += 1
                again = self.executor.again(evidence.executed, cold=cold)
                _compare_traces(evidence, again, "a cold interpreter" if cold else "a second run")

    def _record(self, evidence: Evidence, foretold: Foretold | None, part: str) -> None:
        line = str(evidence.schedule)
        known = self.tally.schedules.get(line)
        if known is not None and known["overruns"] >= evidence.overruns and _rank(known["part"]) <= _rank(part):
            return
        store = evidence.schedule.store
        kills, losses, exposed, passed = [], [], set(), set()
        for life in evidence.lives:
            phase = "resume" if life.resume else "first"
            passed |= {(store, label, phase) for label in life.passed}
            if (kill := life.killed_at) and kill.loss:
                took = any(event["lost"] for event in life.of("power"))
                losses.append([store, kill.label, kill.loss, took])
                exposed |= {(store, label) for label in life.passed}
            elif kill:
                kills.append([store, kill.label, phase])
        record = {
            "part": part,
            "kills": kills,
            "losses": losses,
            "exposed": sorted(map(list, exposed)),
            "passed": sorted(map(list, passed)),
            "hindered": [[store, life.hindered_by] for life in evidence.lives if life.hindered_by],
            "rows": {row: count for row, count in (foretold.rows if foretold else {}).items() if count},
            "overruns": evidence.overruns,
        }
        self.tally.add(line, record)


def _compare_traces(first: Evidence, second: Evidence, what: str) -> None:
    for one, other in zip(trace(first), trace(second), strict=False):
        if one != other:
            raise Nondeterminism(f"'{first.schedule}': {what} differs:\n{_difference(one, other)}")
    if len(first.lives) != len(second.lives):
        raise Nondeterminism(f"'{first.schedule}': {len(first.lives)} lives, and {what} has {len(second.lives)}")


def _difference(one: Any, other: Any) -> str:
    for a, b in zip(one, other, strict=False):
        if a != b:
            return f"  {str(a)[:400]}\n  {str(b)[:400]}"
    return "  (in length)"
