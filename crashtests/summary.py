"""The summary of a campaign: where processes were killed and how often, and the gates that a full session must meet.

No vacuous green: every crash point that lives pass must have been killed at, in first lives and in resumes, by the
sweep alone (never by luck); every crash point that the subject lists must have been passed at all. Where a loss of
power can be simulated it must have been, at every crash point of its own bound, and have taken something away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from crashtests.campaign import Tally
from crashtests.expect import ROWS
from crashtests.powerloss import sqlite_syncs
from crashtests.schedule import HINDRANCES, LOSSES, Schedule
from crashtests.subject import Subject
from crashtests.sweep import BOUNDS

PHASES = ("first", "resume")


@dataclass(frozen=True, slots=True)
class Session:
    """A whole session: the merged tally of its workers, and what was asked for."""

    subject: Subject
    tally: Tally
    profile: str
    seed: int
    seconds: float

    def refused(self) -> Counter[tuple[str, str]]:
        """How often a life that was hindered has refused, by (store, hindrance)."""
        return Counter(tuple(h) for r in self.tally.schedules.values() for h in r["hindered"])

    def triples(self, key: str, part: str | None = None) -> Counter[tuple[str, str, str]]:
        """How often each (store, label, phase) stands under `key` ("kills", "passed"), in all parts or in one."""
        records = self.tally.schedules.values()
        return Counter(tuple(t) for r in records if part in (None, r["part"]) for t in r[key])

    def losses(self, part: str | None = None) -> list[tuple[str, str, str, bool]]:
        """Every loss of power, in all parts or in one: (store, label, loss, whether it took anything away)."""
        records = self.tally.schedules.values()
        return [tuple(lost) for r in records if part in (None, r["part"]) for lost in r.get("losses", ())]

    def exposed(self, part: str) -> set[tuple[str, str]]:
        """Every (store, label) that lives passed which lost power in the end."""
        records = self.tally.schedules.values()
        return {(store, label) for r in records if r["part"] == part for store, label in r.get("exposed", ())}

    def count(self, part: str) -> int:
        return sum(record["part"] == part for record in self.tally.schedules.values())


def labels(subject: Subject) -> Iterator[tuple[str, str]]:
    """Every (store, label) that the subject lists."""
    for store in subject.stores:
        yield from ((store, label) for label in subject.labels(Schedule((), store=store)))


def gates(session: Session) -> list[str]:
    """What a full session has not covered; nothing if it has covered all it must."""
    killed, passed = session.triples("kills", "sweep"), session.triples("passed")
    where = {"first": "first lives", "resume": "resumes"}
    missed = [
        f"{store} {label} was passed in {where[phase]}, but the sweep never killed there"
        for store, label, phase in sorted(passed.keys() - killed.keys())
    ]
    seen = {(store, label) for store, label, _ in passed}
    missed += [
        f"{store} {label} was never passed" for store, label in labels(session.subject) if (store, label) not in seen
    ]
    if session.subject.settles_exactly:
        rows = _rows(session)
        missed += [f"reconcile row '{row}' was never met" for row in ROWS if not rows[row]]
    refused = session.refused()
    missed += [
        f"{store} was never resumed with a run that is {how}"
        for store in session.subject.stores
        for how in sorted(session.subject.hindrances)
        if not refused[store, how]
    ]
    if not session.count("sweep"):
        missed.append("the sweep did not run")
    return missed + list(_power_gates(session))


def _power_gates(session: Session) -> Iterator[str]:
    losses = session.losses("power")
    lost = {(store, label) for store, label, _, _ in losses}
    for store, label in sorted(session.exposed("power") - lost):
        yield f"{store} {label} was passed by lives that lose power, but never lost there"
    for store in session.subject.power_stores:
        if not any(took for each, _, _, took in losses if each == store):
            yield f"no loss of power on {store} took anything away"


def summary(session: Session) -> str:
    """The table of kills and the numbers of the session, as text."""
    tally = session.tally
    lines = [f"subject {session.subject.name}; every kill is signal 9 from the kernel, announced by its label"]
    lines += list(_kill_table(session))
    if rows := _rows(session):
        lines += ["", "calls settled by a resume, by row of the reconcile table"]
        lines += [f"  {row:24}{rows[row]:8}" for row in ROWS]
        unknown = rows["unknown"] + rows["verify: cannot tell"]
        lines += [f"  told 'state unknown': {unknown} of {rows.total()} ({100 * unknown / rows.total():.1f} %)"]
    if refused := session.refused():
        each = ", ".join(f"{how} {sum(n for (_, h), n in refused.items() if h == how)}" for how in HINDRANCES)
        lines += ["", f"resumes that had to be refused: {each}"]
    bounds = "; ".join(map(str, BOUNDS[session.profile]))
    rates = tally.rates
    lines += [
        "",
        f"sweep    {session.count('sweep')} schedules; a full session has every one of: {bounds}",
        f"machine  {session.count('machine')} schedules from --crash-seed {session.seed}, "
        f"{sum(r['overruns'] for r in tally.schedules.values() if r['part'] == 'machine')} planned kills overran",
        _power_row(session),
        f"wire     {rates['wire']} kills through the real SDK client",
        f"again    {rates['repeated']} schedules run twice, {rates['cold']} in cold interpreters, traces equal",
        f"lives    {rates['lives']} in {session.seconds:.1f} s of session, "
        f"{rates['lives'] / max(1e-9, rates['microseconds'] / 1e6):.0f} a second and worker",
    ]
    return "\n".join(lines)


def _power_row(session: Session) -> str:
    losses, stores = session.losses(), session.subject.power_stores
    if not stores:
        return "power    never lost: the subject names no store on which its syncs can be seen (power_stores)"
    places = {(store, label) for store, label, _, _ in losses}
    by = Counter(loss for _, _, loss, _ in losses)
    without = [f"none on {store}" for store in session.subject.stores if store not in stores]
    if without and (problem := sqlite_syncs.unavailable()):
        without.append(problem)
    parts = [f"{store} {sum(lost[0] == store for lost in losses)}" for store in stores]
    parts += [f"{loss} {by[loss]}" for loss in LOSSES if loss]
    return (
        f"power    {len(losses)} losses at {len(places)} crash points ({', '.join(parts + without)}), "
        f"{sum(took for _, _, _, took in losses)} took something away"
    )


def _rows(session: Session) -> Counter[str]:
    rows: Counter[str] = Counter()
    for record in session.tally.schedules.values():
        rows.update(record["rows"])
    return rows


def _kill_table(session: Session) -> Iterator[str]:
    """A line a crash point: kills per store, in first lives and in resumes."""
    kills = session.triples("kills")
    stores = session.subject.stores
    yield ""
    yield f"{'kills at crash point':30}" + "".join(f"{store + ' ' + phase:>15}" for store in stores for phase in PHASES)
    for label in dict.fromkeys(label for _, label, _ in sorted(kills, key=lambda t: t[1])):
        counts = [kills[store, label, phase] for store in stores for phase in PHASES]
        yield f"  {label:28}" + "".join(f"{n or '-':>15}" for n in counts)
    totals = [
        sum(n for (s, _, p), n in kills.items() if (s, p) == (store, phase)) for store in stores for phase in PHASES
    ]
    yield f"  {'all ' + str(sum(totals)):28}" + "".join(f"{n:>15}" for n in totals)
