"""Evidence: everything that was seen of one schedule from outside, and what follows directly from it.

It is what the contract judges. The witness of a kill is the kernel's signal 9 *and* the label that the life announced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from crashtests.forkserver.client import Death
from crashtests.kinds import TOOL_KINDS
from crashtests.schedule import Hindrance, Kill, Plan, Schedule, parse_kill
from crashtests.subject import Scene
from crashtests.world import Event, step_of


@dataclass(frozen=True)  # without slots, for what follows from it and every guarantee asks again
class LifeEvidence:
    """One life: what was planned, how it ended, what happened in it, and what was durable before and after."""

    number: int
    resume: bool
    planned: Plan
    death: Death
    events: list[Event]
    before: Scene | None
    after: Scene | None
    changed: bool | None
    """Whether files changed in the life; None if nobody looked (only a resume where nothing is saved is looked at)."""

    @cached_property
    def killed_at(self) -> Kill | None:
        """Where it was killed, None if it was not."""
        if not self.death.killed or self.death.witness is None:
            return None
        return parse_kill(self.death.witness)

    @property
    def hindered_by(self) -> str | None:
        """What stood in its way, None if nothing did: neither a start nor a resume of what is not saved is hindered."""
        saved = self.resume and self.before is not None
        return self.planned.how if isinstance(self.planned, Hindrance) and saved else None

    @cached_property
    def ending(self) -> Event | None:
        """What the harness said of its end, None if it was killed."""
        return next((event for event in self.events if event["event"] == "ending"), None)

    @cached_property
    def status(self) -> str:
        return str(self.ending["status"]) if self.ending else "killed" if self.killed_at else "fault"

    @property
    def overrun(self) -> bool:
        """Whether it was planned to be killed or hindered and was not.

        A life that finds nothing to resume hands its plan on to the next.
        """
        met = self.killed_at is not None or self.hindered_by is not None or self.status == "missing"
        return self.planned is not None and not met

    @property
    def in_plan(self) -> bool:
        """Whether it has a place in the plan: a life that found nothing to resume has none."""
        return self.status != "missing" or self.hindered_by is not None

    @cached_property
    def passed(self) -> list[str]:
        """Labels of the crash points it passed, in order."""
        return [label for event in self.of("at") for label in event["labels"]]

    def of(self, *names: str) -> Iterator[Event]:
        return (event for event in self.events if event["event"] in names)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All lives of one schedule. `schedule` names the kills that happened, not those that were planned.

    `executed` is the same with the lives at its end that were planned to be killed and were not.
    """

    schedule: Schedule
    executed: Schedule
    lives: tuple[LifeEvidence, ...]
    branch: Hashable | None = None
    """Equal for two kills that left the same state: what can follow them is the same. None if that is not known."""

    @property
    def events(self) -> Iterator[Event]:
        return (event for life in self.lives for event in life.events)

    @property
    def last(self) -> LifeEvidence:
        return self.lives[-1]

    @property
    def end(self) -> Scene | None:
        """What is durable at the very end."""
        return self.last.after

    @property
    def overruns(self) -> int:
        """Planned kills that were never reached, and hindrances that found nothing to hinder."""
        return sum(life.overrun for life in self.lives)

    @property
    def crashes(self) -> int:
        """Lives that died: killed, or ended by a tool."""
        return sum(
            life.killed_at is not None or any(ended_by_tool(begin, life) for begin in life.of("begin"))
            for life in self.lives
        )

    def points(self, place: int) -> list[Kill]:
        """The crash points that the life at `place` in the plan passed, in order, each with its count.

        None if there was no such life.
        """
        passes: Counter[str] = Counter()
        points = []
        in_plan = [life for life in self.lives if life.in_plan]
        for label in in_plan[place].passed if place < len(in_plan) else ():
            passes[label] += 1
            points.append(Kill(label, passes[label]))
        return points

    def count(self, name: str) -> int:
        return sum(event["event"] == name for event in self.events)

    def calls(self) -> list[str]:
        """Ids of all calls whose tools were entered, each once, in order."""
        return list(dict.fromkeys(event["id"] for event in self.events if event["event"] == "begin"))


def ended_by_tool(begin: Event, life: LifeEvidence) -> bool:
    """Whether the call that began here ended the process with a BaseException."""
    returned = any(event["id"] == begin["id"] for event in life.of("end"))
    return not returned and TOOL_KINDS[begin["tool"]].ends is not None and life.killed_at is None


def trace(evidence: Evidence) -> list[Any]:
    """What the same schedule must give every time: all but pids, durations and names of directories."""
    return [
        (
            life.number,
            life.resume,
            life.status,
            life.death.exit_status,
            life.death.witness,
            [_repeatable(event, life) for event in life.events],
            life.after,
        )
        for life in evidence.lives
    ]


def _repeatable(event: Event, life: LifeEvidence) -> Event:
    """Without the pid, and without what a refusal says, which may name the run by its random id."""
    unlike = {"pid", "reason"} if life.hindered_by else {"pid"}
    return {key: value for key, value in event.items() if key not in unlike}


__all__ = ["Evidence", "LifeEvidence", "ended_by_tool", "step_of", "trace"]
