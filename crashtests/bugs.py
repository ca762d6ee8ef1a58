"""Planted bugs: small, plausible edits of the harness. The campaign must find each, and shrink it to its smallest.

They answer "would it have caught my bug?" by name, and stand in `bugs.toml`. An edit is made in memory when the process
of a life imports the module (planted.py), never on disk. `smallest` is established by enumeration, not by opinion:
`python -m crashtests smallest`. To add one: add its row, with any schedule that shows it, and let that command say what
the smallest is.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from crashtests.campaign import Campaign
from crashtests.contract import Violation
from crashtests.execute import SubjectFault
from crashtests.machine import run_shard
from crashtests.planted import Edit
from crashtests.powerloss import bound
from crashtests.schedule import Schedule
from crashtests.sweep import sweep, tasks

_PATH = Path(__file__).with_name("bugs.toml")
_SHARDS_MAX = 20
_SCHEDULES_PER_SHARD = 40


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """An edit that breaks the harness.

    `why`: how a competent person comes to commit it. `guarantee`: the gravest that it breaks. `smallest`: the smallest
    schedule that shows it. `by`: the part of the campaign that finds it, "machine" for what the sweep does not draw,
    "power" for what only a loss of power shows.
    """

    name: str
    why: str
    guarantee: str
    edit: Edit
    smallest: str
    by: Literal["sweep", "machine", "power"] = "sweep"

    @property
    def planted(self) -> dict[str, Any]:
        """What an executor takes to plant it."""
        return asdict(self.edit)


def _read() -> tuple[PlantedBug, ...]:
    rows = tomllib.loads(_PATH.read_text(encoding="utf-8"))["bug"]
    edits = [Edit(row.pop("module"), row.pop("before"), row.pop("after")) for row in rows]
    return tuple(PlantedBug(edit=edit, **row) for row, edit in zip(rows, edits, strict=True))


class _Found(Exception):
    """The machine has drawn a schedule that shows the bug."""

    def __init__(self, schedule: Schedule, violations: list[Violation]) -> None:
        super().__init__(str(schedule))
        self.found = schedule, violations


def find(campaign: Campaign, bug: PlantedBug) -> tuple[Schedule, list[Violation]] | None:
    """The first schedule of the campaign's own that breaks the bug's guarantee, and that violation; None if none does.

    The sweep goes in order of size, and so do losses of power; the machine goes through shards of its own from seed 0
    on.
    """
    search: dict[str, Callable[[Campaign, PlantedBug], None]] = {"sweep": _sweep, "machine": _machine, "power": _power}
    try:
        search[bug.by](campaign, bug)
    except _Found as found:
        return found.found
    return None


def _sweep(campaign: Campaign, bug: PlantedBug) -> None:
    for task in tasks(campaign.executor.subject, "default"):
        with suppress(SubjectFault):  # red as well, but the bug is to be found in what can be judged
            for evidence in sweep(task, lambda base, k: campaign.check(base, "sweep", kill_at=k)[0]):
                _look(campaign, bug, evidence.schedule)


def _power(campaign: Campaign, bug: PlantedBug) -> None:
    for task in bound.tasks(campaign.executor.subject, "default"):
        with suppress(SubjectFault):
            for evidence in bound.losses(
                task, lambda base, k, loss: campaign.check(base, "power", kill_at=k, loss=loss)[0]
            ):
                _look(campaign, bug, evidence.schedule)


def _machine(campaign: Campaign, bug: PlantedBug) -> None:
    for number in range(_SHARDS_MAX):
        run_shard(
            lambda schedule: _look(campaign, bug, schedule),
            campaign.executor.subject,
            seed_number=number,
            schedules=_SCHEDULES_PER_SHARD,
        )


def _look(campaign: Campaign, bug: PlantedBug, schedule: Schedule) -> None:
    broken = [v for v in campaign.violations(schedule, "bugs") if v.guarantee == bug.guarantee]
    if broken:
        raise _Found(schedule, broken)


BUGS = _read()
