"""A failure of the campaign: shrunk to its smallest schedule, with its timeline and the line that replays it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache

import pytest

from crashtests.campaign import Campaign, Nondeterminism
from crashtests.contract import GUARANTEES, Violation, breaks
from crashtests.evidence import Evidence
from crashtests.execute import SubjectFault
from crashtests.schedule import ANY, Kill, Schedule, parse
from crashtests.shrink import order, shrink
from crashtests.timeline import render, replay_command

# The property of a test report that carries a failure to the summary, as [guarantee, schedule, whole report].
PROPERTY = "crash failure"


class ContractBroken(AssertionError):
    """A guarantee does not hold for the subject. `schedule` is the smallest that shows it, `report` the whole story."""

    def __init__(self, schedule: Schedule, violations: Sequence[Violation], report: str) -> None:
        super().__init__(f"'{schedule}' breaks {violations[0]}")
        self.guarantee = violations[0].guarantee
        self.schedule = schedule
        self.report = report


def broken(
    campaign: Campaign, failing: Schedule, violations: Sequence[Violation], subject: str | None = None
) -> ContractBroken:
    """What to raise for a failing schedule: the smallest that breaks what `failing` breaks first, and its report."""
    executor = campaign.executor
    guarantee = violations[0].guarantee

    @cache
    def executed(candidate: Schedule) -> Evidence | None:
        try:
            return executor.execute(candidate) if executor.subject.takes(candidate) else None
        except SubjectFault:
            return None  # that is another story

    @cache
    def fails(candidate: Schedule) -> Schedule | None:
        evidence = executed(candidate)
        with suppress(SubjectFault):
            if evidence and breaks(guarantee, evidence, lambda: executor.reference(candidate), executor.subject):
                return evidence.schedule
        return None

    def passes(schedule: Schedule, place: int) -> list[Kill]:
        evidence = executed(schedule)
        return evidence.points(place) if evidence else []

    happened = campaign.check(failing, "shrink")[0].schedule  # with real labels in place of `any`
    evidence, found = campaign.check(shrink(happened, fails, passes), "shrink")
    report = f"{render(evidence, found or violations)}\n\n"
    if holding := _nearest_holding(campaign, evidence):
        report += f"holds:      {holding}\n"
    report += f"replay it:  {replay_command(evidence, subject)}"
    return ContractBroken(evidence.schedule, found or violations, report)


def _nearest_holding(campaign: Campaign, evidence: Evidence) -> str | None:
    """The same schedule with one kill a crash point earlier or later, if every guarantee holds for that.

    What lies between the two is usually what is wrong.
    """
    schedule = evidence.schedule
    for place in reversed(range(len(schedule.kills))):
        if isinstance(schedule.kills[place], Kill):
            at = len(evidence.points(place))
            for moved, way in ((at - 1, "earlier"), (at + 1, "later")):
                before, after = schedule.kills[:place], schedule.kills[place + 1 :]
                neighbour = replace(schedule, kills=(*before, Kill(ANY, moved), *after))
                with suppress(SubjectFault):
                    other, found = campaign.check(neighbour, "shrink") if moved else (evidence, [])
                    if moved and not found and not other.overruns:
                        return f"{other.schedule}   (killed one crash point {way})"
    return None


@contextmanager
def reported(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """Turn a `ContractBroken` into a one-line failure of the test, and carry the report to the summary.

    What makes judging impossible is a failure without a traceback too: it names the subject and the schedule.
    """
    try:
        yield
    except (SubjectFault, Nondeterminism) as fault:
        raise pytest.fail.Exception(str(fault), pytrace=False) from None
    except ContractBroken as failure:
        record_property(PROPERTY, [failure.guarantee, str(failure.schedule), failure.report])
        raise pytest.fail.Exception(str(failure), pytrace=False) from None


def gravest(failures: Sequence[Sequence[str]]) -> str:
    """The report of one of several failures, each [guarantee, schedule, report]: the gravest, and then the smallest.

    The contract is in order of gravity.
    """
    gravity = list(GUARANTEES)
    return min(failures, key=lambda failure: (gravity.index(failure[0]), order(parse(failure[1]))))[2]
