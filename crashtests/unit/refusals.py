"""What every refusal must be: of the right kind, naming the file and the remedy, with nothing on disk changed.

A state is refused in the same words by all who look at it: by `read`, by a resume, and by a supervisor's
resume-or-start, which must not take damage for absence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from crashtests.unit import states
from harness import StateMissing, StateRefused, Store, run_agent


class NeverAsked:
    """A model that no refused run may reach."""

    name = "scripted"

    def ask(self, request: dict[str, Any]) -> Any:
        raise AssertionError("a refused run asked its model")


def resumed(store: Store, resume: bool | Literal["or-start"]) -> None:
    run_agent(NeverAsked(), None if resume is True else states.TASK, [], store, resume=resume)


def refused(store: Store, kind: type[StateRefused], path: Path, *words: str) -> None:
    """Assert that what is in the directory of `store` is refused as `kind`, with all `words` in the message."""
    assert kind is not StateMissing, "absence is not refused by a resume-or-start"
    for look in (store.read, lambda: resumed(store, True), lambda: resumed(store, "or-start")):
        with states.nothing_changes(store.directory), pytest.raises(kind) as refusal:
            look()

        assert kind is type(refusal.value)
        assert path == refusal.value.path
        for word in (str(path), refusal.value.remedy, *words):
            assert word
            assert word in str(refusal.value)


def missing(store: Store, *words: str) -> None:
    """Assert that there is no run to resume, and that looking for one made nothing."""
    for look in (store.read, lambda: resumed(store, True)):
        with states.nothing_changes(store.directory.parent), pytest.raises(StateMissing) as refusal:
            look()

        assert store.directory == refusal.value.path
        for word in (str(store.directory), "start a run first", *words):
            assert word in str(refusal.value)
