"""Planted bugs: small, plausible edits of the harness. The campaign must find each, and shrink it to its smallest.

They answer "would it have caught my bug?" by name, and stand in `bugs.toml`. An edit is made in memory when the process
of a life imports the module (planted.py), never on disk. `smallest` is the smallest schedule known: what shrinking has
found or, where it has been established, what going through all of them has: `python -m crashtests smallest`. To add
one: add its row, with any schedule that shows it, and let that command say what the smallest is.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from crashtests.campaign import Campaign
from crashtests.contract import Violation
from crashtests.execute import SubjectFault
from crashtests.machine import SCHEDULES_PER_SHARD, SHARDS, run_shard, shard_seed
from crashtests.planted import Edit
from crashtests.powerloss import bound
from crashtests.schedule import Schedule
from crashtests.subject import Subject
from crashtests.sweep import sweep, tasks

# More than a session lives. Each bug has to be found long before.
LIVES_MAX = 6000

# The family of the bugs that killed processes alone do not show.
POWER_LOSS = "power loss"

_PATH = Path(__file__).with_name("bugs.toml")


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """An edit that breaks the harness.

    `family`: what it has to do with. `why`: how a competent person comes to commit it. `guarantee`: the gravest that it
    breaks. `smallest`: the smallest schedule that shows it.
    """

    name: str
    family: str
    why: str
    guarantee: str
    edit: Edit
    smallest: str

    @property
    def planted(self) -> dict[str, Any]:
        """What an executor takes to plant it."""
        return asdict(self.edit)


def _read() -> tuple[PlantedBug, ...]:
    rows = tomllib.loads(_PATH.read_text(encoding="utf-8"))["bug"]
    edits = [Edit(row.pop("module"), row.pop("before"), row.pop("after")) for row in rows]
    return tuple(PlantedBug(edit=edit, **row) for row, edit in zip(rows, edits, strict=True))


class NoSuchBug(ValueError):
    """There is no planted bug of a name. The message shows the name, and those that there are."""


def bugs_named(names: Sequence[str]) -> list[PlantedBug]:
    """The planted bugs of these names, in their own order; all if none is named. Raises `NoSuchBug`."""
    known = [bug.name for bug in BUGS]
    if unknown := [name for name in names if name not in known]:
        raise NoSuchBug(f"there is no planted bug {unknown[0]!r}; there are: {', '.join(known)}")
    return [bug for bug in BUGS if bug.name in (names or known)]


def find(campaign: Campaign, bug: PlantedBug, seed: int = 0) -> tuple[Schedule, list[Violation]] | None:
    """The first schedule of the campaign's own that breaks the bug's guarantee, and that violation; None if none does.

    `seed` is that of a session, and also says in which order the sweep's scripts are taken: in a session that depends
    on how they fall to the workers. No more than `LIVES_MAX` lives.
    """
    lives = campaign.executor.lives
    spent = dict.fromkeys((_swept(campaign, seed), _lost(campaign, seed), _machine(campaign, seed)), 0)
    while spent and campaign.executor.lives - lives < LIVES_MAX:
        part = min(spent, key=spent.__getitem__)  # a session works on all of them at a time
        before = campaign.executor.lives
        found = next(part, None)
        spent[part] += campaign.executor.lives - before
        if found is None:
            del spent[part]
        elif broken := [v for v in found[1] if v.guarantee == bug.guarantee]:
            return found[0], broken
    return None


def _swept(campaign: Campaign, seed: int) -> Iterator[tuple[Schedule, list[Violation]]]:
    scripts = tasks(campaign.executor.subject, "default", seed)
    random.Random(seed).shuffle(scripts)
    for task in scripts:
        with suppress(SubjectFault):  # red as well, but the bug is to be found in what can be judged
            for evidence in sweep(task, lambda base, k: campaign.check(base, "sweep", kill_at=k)[0]):
                yield evidence.schedule, campaign.violations(evidence.schedule, "sweep")


def _lost(campaign: Campaign, seed: int) -> Iterator[tuple[Schedule, list[Violation]]]:
    scripts = bound.tasks(campaign.executor.subject, "default")
    random.Random(seed).shuffle(scripts)
    for task in scripts:
        with suppress(SubjectFault):
            for evidence in bound.losses(
                task, lambda base, k, loss: campaign.check(base, "power", kill_at=k, loss=loss)[0]
            ):
                yield evidence.schedule, campaign.violations(evidence.schedule, "power")


def _machine(campaign: Campaign, seed: int) -> Iterator[tuple[Schedule, list[Violation]]]:
    for schedule in _drawn(type(campaign.executor.subject), seed):
        with suppress(SubjectFault):
            evidence, violations = campaign.check(schedule, "machine")
            yield evidence.schedule, violations


@cache
def _drawn(subject: type[Subject], seed: int) -> tuple[Schedule, ...]:
    """All schedules that the machine draws in a session of this seed."""
    drawn: list[Schedule] = []
    for shard in range(SHARDS):
        number = shard_seed(seed, shard)
        run_shard(drawn.append, subject(), seed_number=number, schedules=SCHEDULES_PER_SHARD["default"])
    return tuple(drawn)


BUGS = _read()
