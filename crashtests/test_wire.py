"""The wire tier: a share of the sweep's schedules through the real `anthropic` client."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from crashtests.campaign import Campaign
from crashtests.execute import executor
from crashtests.failure import broken, reported
from crashtests.schedule import Schedule, parse

WIRE = "crashtests.subjects.wire:Wire"

# One of each way in which a life and the wire can meet.
LINES = (
    "v1 json marks [thinking redacted server blank read pay][thinking mail] end",
    "v1 sqlite no-marks [pause][text pay put] sequence",
    "v1 json marks [!max_tokens pay][surrogate nan bytes big] silent",
    "v1 sqlite marks [ghost deny bounce none] refusal",
)
EVERY = 9


@pytest.fixture(scope="module")
def wire() -> Iterator[Campaign]:
    """A campaign against the harness with the SDK in it."""
    with executor(WIRE) as execute:
        yield Campaign(execute)


def test_wire(wire: Campaign, campaign: Campaign, record_property: Callable[[str, object], None]) -> None:
    """Every guarantee holds through the real client, killed at every ninth crash point of scripts with all blocks."""
    killed = 0
    with reported(record_property):
        for line in LINES:
            for k in range(1, 1000, EVERY):
                evidence, violations = wire.check(parse(line), "wire", kill_at=k)
                if violations:
                    raise broken(wire, evidence.schedule, violations, WIRE)
                if not evidence.schedule.kills:
                    break
                killed += 1
    campaign.tally.rates["wire"] += killed

    assert killed >= 4 * len(LINES)


def test_wire_sends_what_the_function_gets(wire: Campaign, campaign: Campaign) -> None:
    """The requests that reach the API through the SDK are, value for value, those that the harness makes."""
    schedule: Schedule = parse(LINES[0])
    requests = [
        [event["messages"] for event in each.executor.execute(schedule).events if event["event"] == "ask"]
        for each in (campaign, wire)
    ]

    assert requests[0] == requests[1]
