"""The wire tier: a share of the sweep's schedules through the real `anthropic` client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crashtests.campaign import Campaign
from crashtests.execute import executor
from crashtests.failure import broken, reported
from crashtests.schedule import Schedule, parse
from crashtests.scripted import ScriptedModel
from crashtests.wire import serving
from crashtests.world import LogReader, World

WIRE = "crashtests.subjects.wire:Wire"

# One of each way in which a life and the wire can meet.
LINES = (
    "v1 json marks [thinking redacted server blank read pay][thinking mail] end",
    "v1 sqlite no-marks [pause][text pay put] sequence",
    "v1 json marks [!max_tokens pay][surrogate nan bytes big] silent",
    "v1 sqlite marks [ghost deny bounce none] refusal",
)
EVERY = 9


@pytest.fixture
def wire() -> Iterator[Campaign]:
    """A campaign against the harness with the SDK in it."""
    with executor(WIRE) as execute:
        yield Campaign(execute)


def test_wire(wire: Campaign, campaign: Campaign, record_property: Callable[[str, object], None]) -> None:
    """Every guarantee holds through the real client, killed at every ninth crash point of scripts with all blocks.

    The requests that reach the API through the SDK are, value for value, those that the harness makes. (One test, since
    the SDK would have to be loaded again for another on another worker.)
    """
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
    assert _requests(campaign) == _requests(wire)


def _requests(campaign: Campaign) -> list[object]:
    evidence = campaign.executor.execute(parse(LINES[0]))
    return [event["messages"] for event in evidence.events if event["event"] == "ask"]


@pytest.mark.slow  # it imports an SDK and starts a server
def test_streaming(tmp_path: Path) -> None:
    """What the served API streams is, read by the SDK, what the scripted model answered."""
    import anthropic

    script: Schedule = parse("v1 json marks [thinking text read pay] end")
    model = ScriptedModel(script, World(tmp_path / "world.log", 1, lambda label: None), strict=True)
    tools = [{"name": name, "description": name, "input_schema": {"type": "object"}} for name in ("read", "pay")]
    request: Any = {"model": "m", "max_tokens": 1000, "messages": [{"role": "user", "content": "Go."}], "tools": tools}

    with (
        serving(model) as address,
        anthropic.Anthropic(api_key="none", base_url=address, max_retries=0) as client,
        client.messages.stream(**request) as stream,
    ):
        streamed = stream.get_final_message()

    (said,) = (event["content"] for event in LogReader(tmp_path / "world.log").read() if event["event"] == "answer")
    assert [block["type"] for block in said] == [block.type for block in streamed.content]
    assert said[2:] == [block.to_dict() for block in streamed.content[2:]]
    assert "tool_use" == streamed.stop_reason
