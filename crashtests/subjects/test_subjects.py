"""The subjects that come with the suite, each as far as its packages are installed: whole without a kill, and after one
what its documentation leads one to expect.
"""

from __future__ import annotations

import pytest

from crashtests.contract import violations
from crashtests.environments import NotInstalled, python_of
from crashtests.execute import executor
from crashtests.schedule import parse
from crashtests.subject import Subject, load_subject
from crashtests.subjects import SUBJECTS

pytestmark = pytest.mark.slow

# A kill in the tool, its effect done: what is broken then, each time, or, where that is a race, in one run of so many.
TRIES = 12
KILLED = "v1 json marks [pay] end > after-effect:1"
TWICE = {"AT-MOST-ONCE", "TOLD"}
BROKEN = dict.fromkeys(SUBJECTS, TWICE) | {
    "langgraph-recipe": set(),
    "pydantic-ai-steps": {"AT-MOST-ONCE"},
    "pydantic-ai-frontier": {"AT-MOST-ONCE"},
}
BROKEN |= {name: set() for name in SUBJECTS if name.startswith("ours-")}


def installed(name: str) -> Subject:
    """The subject; a test of one that cannot be run is skipped."""
    subject = load_subject(name)
    try:
        python_of(subject.environment)
    except NotInstalled as reason:
        pytest.skip(str(reason))
    return subject


@pytest.mark.parametrize("name", ["claude-agent"])
def test_what_a_framework_does_behind_a_dead_host(name: str) -> None:
    """Its own process lives on, ends by itself, and leaves a run that a resume brings to its end, no effect twice."""
    assert installed(name).starts_processes
    killed = parse(f"{KILLED}@host")
    with executor(name, warm_up=False) as execute:
        after = execute.again(killed, cold=False)
        broken = {each.guarantee for each in violations(after, execute.reference(killed), execute.subject)}
    first = after.lives[0]

    assert str(killed) == str(after.schedule)
    assert first.death.lived_on > 0 == first.death.survivors
    assert {first.events[0]["pid"]} < {event["pid"] for event in first.events}  # it went on with the model
    assert "done" == after.last.status
    assert set() == broken


@pytest.mark.parametrize("name", SUBJECTS)
def test_subject(name: str) -> None:
    """Two turns, two calls at once and every class of tool hold without a kill; one kill breaks what it breaks."""
    subject = installed(name)
    options = f"{subject.stores[0]} {'marks' if subject.protocols[0] else 'no-marks'}"
    control = parse(f"v1 {options} [read pay][put] end")
    killed = parse(KILLED.replace("json marks", options))

    with executor(name, warm_up=False) as execute:
        whole = execute.again(control, cold=False)
        found = violations(whole, whole, subject)
        for _ in range(TRIES if subject.races else 1):
            after = execute.again(killed, cold=False)
            broken = {each.guarantee for each in violations(after, execute.reference(killed), subject)}
            if broken == BROKEN[name]:
                break

    assert [] == found
    assert str(killed) == str(after.schedule)
    assert BROKEN[name] == broken
    passed = {label for life in whole.lives for label in life.passed}
    assert {f"{when}-{label}" for label in subject.persistence for when in ("before", "after")} <= passed
