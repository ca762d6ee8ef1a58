"""A failure of the campaign: shrunk to its smallest schedule, with its timeline and the line that replays it."""

from __future__ import annotations

from collections.abc import Sequence

from crashtests.campaign import Campaign
from crashtests.contract import Violation
from crashtests.evidence import Evidence
from crashtests.schedule import Schedule
from crashtests.shrink import shrink
from crashtests.timeline import render, replay_command


class ContractBroken(AssertionError):
    """A guarantee does not hold for the subject. The message is the whole report."""


def shrunk(campaign: Campaign, failing: Schedule, violations: Sequence[Violation]) -> tuple[Evidence, list[Violation]]:
    """Evidence of the smallest schedule found that breaks the guarantee which `failing` breaks first."""
    guarantee = violations[0].guarantee

    def fails(candidate: Schedule) -> Schedule | None:
        known = campaign.known(candidate)
        if known is not None and not known:
            return None
        evidence, found = campaign.check(candidate, "shrink")
        return evidence.schedule if any(v.guarantee == guarantee for v in found) else None

    return campaign.check(shrink(failing, fails), "shrink")


def report(campaign: Campaign, failing: Schedule, violations: Sequence[Violation], subject: str | None = None) -> str:
    """What a person needs to see of a failing schedule: shrunk, as a timeline, with the command that repeats it."""
    evidence, found = shrunk(campaign, failing, violations)
    # A defect that depends on more than the schedule would not show again; then the original is the evidence.
    if not found:
        evidence, found = campaign.check(failing, "shrink")
    return f"{render(evidence, found)}\n\nreplay it:  {replay_command(evidence, subject)}"
