"""A failure of the campaign: shrunk to its smallest schedule, with its timeline and the line that replays it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from crashtests.campaign import Campaign, Nondeterminism
from crashtests.contract import GUARANTEES, Violation
from crashtests.evidence import Evidence
from crashtests.execute import SubjectFault
from crashtests.schedule import Kill, Schedule, parse
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
    guarantee = violations[0].guarantee

    def fails(candidate: Schedule) -> Schedule | None:
        if not campaign.executor.subject.takes(candidate):
            return None
        known = campaign.known(candidate)
        if known is not None and not known:
            return None
        try:
            evidence, found = campaign.check(candidate, "shrink")
        except SubjectFault:
            return None  # that is another story
        return evidence.schedule if any(v.guarantee == guarantee for v in found) else None

    def passes(schedule: Schedule, place: int) -> list[Kill]:
        try:
            return campaign.check(schedule, "shrink")[0].points(place)
        except SubjectFault:
            return []

    happened = campaign.check(failing, "shrink")[0].schedule  # with real labels in place of `any`
    evidence, found = campaign.check(shrink(happened, fails, passes), "shrink")
    return ContractBroken(evidence.schedule, found or violations, _report(evidence, found or violations, subject))


def _report(evidence: Evidence, violations: Sequence[Violation], subject: str | None) -> str:
    return f"{render(evidence, violations)}\n\nreplay it:  {replay_command(evidence, subject)}"


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
