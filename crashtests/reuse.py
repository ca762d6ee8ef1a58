"""Lives that need not be lived again. What follows a kill depends on what is on disk and in the world, nothing else.

Two things are remembered. *Ends*: how a run went on, unkilled, from a state that another kill has left, byte for byte
and effect for effect, before. *Beginnings*: the directory after the kills that a whole series of schedules has in
common, so that the second kill of a sweep need not repeat the first. Every kill is still a real one, of a process that
came there by itself; and one schedule in twenty is executed again from nothing, so that a wrong saving would be seen.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from crashtests.evidence import LifeEvidence
from crashtests.schedule import Schedule
from crashtests.subject import Scene


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where the lives of some kills have led: the lives, a copy of the run's directory, and how to go on."""

    schedule: Schedule
    watched: bool
    lives: tuple[LifeEvidence, ...]
    directory: Path
    scene: Scene | None
    resume: bool


class Reuse:
    """What an executor remembers of lives. `directory` is where it keeps its one copy of a run."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._beginning: Beginning | None = None
        self._ends: dict[Hashable, tuple[LifeEvidence, ...]] = {}
        self.lives_saved = 0

    def forget(self) -> None:
        """Remember nothing, as at first."""
        if self._beginning is not None:
            shutil.rmtree(self._directory)
        self._beginning = None
        self._ends.clear()

    def beginning(self, schedule: Schedule, run: Path, *, watched: bool) -> Beginning | None:
        """The lives planned in `schedule`, if they were lived last; `run` is then filled with what they left.

        `watched`: a life to come is to lose power, so these must have kept what they left unsynced.
        """
        begun = self._beginning
        if begun is None or begun.schedule != schedule or begun.watched != watched:
            return None
        shutil.copytree(begun.directory, run, dirs_exist_ok=True)
        self.lives_saved += len(begun.lives)
        return begun

    def begin(
        self, schedule: Schedule, lives: Sequence[LifeEvidence], run: Path, resume: bool, *, watched: bool
    ) -> None:
        """Remember where `lives`, all those planned in `schedule`, have led."""
        if self._beginning is not None:
            shutil.rmtree(self._directory)
        shutil.copytree(run, self._directory)
        self._beginning = Beginning(schedule, watched, tuple(lives), self._directory, lives[-1].after, resume)

    def end(self, key: Hashable, first_number: int) -> tuple[LifeEvidence, ...]:
        """The lives that follow from the state `key`, numbered from `first_number`; none if they are not known."""
        lives = tuple(_renumbered(life, n) for n, life in enumerate(self._ends.get(key, ()), start=first_number))
        self.lives_saved += len(lives)
        return lives

    def ended(self, key: Hashable, lives: Sequence[LifeEvidence]) -> None:
        """Remember the lives that followed from the state `key`."""
        self._ends[key] = tuple(lives)


def state_key(schedule: Schedule, state: str, lives: Sequence[LifeEvidence], resume: bool) -> Hashable:
    """Equal for two moments from which everything must go on alike: same script, same disk, same world."""
    world = [
        {name: value for name, value in event.items() if name not in ("pid", "life")}
        for life in lives
        for event in life.events
        if event["event"] not in ("at", "power", "ending")
    ]
    return str(schedule.without_kills), state, json.dumps(world), resume


def _renumbered(life: LifeEvidence, number: int) -> LifeEvidence:
    return replace(life, number=number, events=[{**event, "life": number} for event in life.events])
