"""What a schedule reaches: the lines of the harness that its lives execute, seen once, on the harness as it is.

A schedule whose lives never meet an edit (edited.py) does with it what it does without: it holds, and need not be
executed to know that. A life that is killed executes no line that it would not have executed if it had been left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from crashtests.edited import Lines
from crashtests.evidence import LifeEvidence
from crashtests.execute import OURS, Executor
from crashtests.forkserver.client import ForkServer
from crashtests.schedule import Schedule
from crashtests.subject import load_subject
from crashtests.sweep import Task, sweep


@contextmanager
def seeing_lines() -> Iterator[Executor]:
    """An executor of the harness as it is, whose lives write down which lines they execute, if they are not killed."""
    setup = {"subject": OURS, "planted": None, "warm_up": True}
    with ForkServer("crashtests.anywhere:covered", setup=setup) as server:
        yield Executor(server, load_subject(OURS))


def lines_of(lives: Iterable[LifeEvidence]) -> Lines:
    """What these lives have written down."""
    return frozenset(line for life in lives for event in life.of("lines") for line in event["firsts"])


@dataclass(frozen=True, slots=True)
class Reach:
    """By schedule, as text: the lines of all lives after its last kill, and the schedules that have one kill more."""

    lines: dict[str, Lines] = field(default_factory=dict)
    kills: dict[str, list[Schedule]] = field(default_factory=dict)

    def misses(self, schedule: Schedule, met: Lines) -> bool:
        """Whether an edit that no life before the last kill meets is met by none after it either."""
        lines = self.lines.get(str(schedule))
        return lines is not None and not lines & met

    def add(self, schedule: Schedule, lives: Iterable[LifeEvidence]) -> None:
        # An earlier run leaves what it leaves, and nobody has seen what it executes.
        if not schedule.over:
            self.lines[str(schedule)] = lines_of(lives)

    def merge(self, other: Reach) -> None:
        """Add what another process has seen. Equal sets of lines are kept once: there are few."""
        once = {lines: lines for lines in self.lines.values()}
        self.lines.update({text: once.setdefault(lines, lines) for text, lines in other.lines.items()})
        self.kills.update(other.kills)


def survey(tasks: Iterable[Task], others: Iterable[Schedule]) -> Reach:
    """What is reached by each task, also without its kills, and by `others`. Takes as long as a sweep of them."""
    reach = Reach()
    with seeing_lines() as execute:
        for schedule in others:
            reach.add(schedule, execute.execute(schedule).lives)
        for task in tasks:
            reach.add(task.base, execute.execute(task.base).lives)
            for evidence in sweep(task, lambda base, k: execute.execute(base, kill_at=k)) if task.kills else ():
                schedule = evidence.schedule
                killed = [place for place, life in enumerate(evidence.lives, start=1) if life.killed_at]
                if len(killed) > len(task.base.deaths):
                    one_less = reach.kills.setdefault(str(replace(schedule, kills=schedule.kills[:-1])), [])
                    # A sweep of second kills ends with a life that has none, which is the first kill once more.
                    if schedule not in one_less:
                        one_less.append(schedule)
                    reach.add(schedule, evidence.lives[killed[-1] :])
    return reach
