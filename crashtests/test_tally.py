"""What is counted: the same however the work was divided, and not enough wherever something was not covered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import Any

import pytest

from crashtests.campaign import Campaign, Tally
from crashtests.evidence import Evidence
from crashtests.execute import Executor, executor
from crashtests.expect import ROWS
from crashtests.schedule import Schedule, parse
from crashtests.stories import Exact
from crashtests.subject import Ending, Life
from crashtests.summary import Session, gates, summary
from crashtests.sweep import Task, sweep, tasks

# The suite's own machinery: it changes seldom, and its tests take their time.
pytestmark = pytest.mark.slow

DRAWN = (
    "v1 json marks [read] end > any:2",
    "v1 json marks [read] end > any:40",
    "v1 json marks [read] end > model-answered:1",
    "v1 json marks [pay pay] end > any:4 > any:1 > any:9",
    "v1 json marks [pay pay] end > after-effect:1 > model-asked:1",
    "v1 json marks [pay pay] end",
)


@pytest.fixture(scope="module")
def naive() -> Any:
    """An executor of the naive loop, whose lives are the cheapest."""
    with executor("crashtests.subjects.naive:Naive") as execute:
        yield execute


def tally_over(execute: Executor, campaigns: int) -> dict[str, Any]:
    """The merged tally of a small session divided among so many campaigns."""
    running = [Campaign(execute) for _ in range(campaigns)]

    def kill(campaign: Campaign, base: Schedule, k: int) -> Evidence:
        return campaign.check(base, "sweep", kill_at=k)[0]

    for place, task in enumerate(tasks(execute.subject, "default", 0)[:3]):
        kills = sweep(Task(task.base, 1), partial(kill, running[place % campaigns]))
        assert list(kills)
    for place, line in enumerate(DRAWN):
        running[-1 - place % campaigns].violations(parse(line), "machine")
    merged = Tally()
    for campaign in running:
        merged.merge(campaign.tally.to_json())
    return merged.schedules


def test_any_division_counts_the_same(naive: Executor) -> None:
    """Every schedule is counted once, with the same kills, rows and overruns, by one campaign, two or eight."""
    alone = tally_over(naive, 1)

    assert alone == tally_over(naive, 2)
    assert alone == tally_over(naive, 8)
    assert {"sweep", "machine"} == {record["part"] for record in alone.values()}


def test_any_order_counts_the_same() -> None:
    """What several parts have covered counts for the same one, whichever tally is merged first."""
    line = "v1 json marks [pay] end > after-effect:1"
    records = [
        {"part": part, "kills": [], "losses": [], "passed": [], "hindered": [], "rows": {}, "overruns": overruns}
        for part, overruns in (("machine", 2), ("machine", 0), ("regressions", 0), ("wire", 1))
    ]
    merged = []
    for order in permutations(records):
        tally = Tally()
        for record in order:
            tally.merge({"schedules": {line: record}, "rates": {}})
        merged.append(tally.schedules[line])

    assert [merged[0]] * len(merged) == merged


class Covered(Exact):
    """Lists one crash point on its one store, and refuses to share it."""

    name = "covered"
    hindrances = frozenset(["held"])

    def labels(self, schedule: Schedule) -> Mapping[str, str]:
        return {"saved": "the scene is on disk"}

    def live(self, life: Life) -> Ending:
        raise AssertionError("not lived")


def session(**changes: Any) -> Session:
    """A session that has covered everything but what `changes` takes away from its one schedule."""
    record = {
        "part": "sweep",
        "kills": [["json", "saved", "first"], ["json", "saved", "resume"]],
        "passed": [["json", "saved", "first"], ["json", "saved", "resume"]],
        "hindered": [["json", "held"]],
        "losses": [],
        "rows": dict.fromkeys(ROWS, 1),
        "overruns": 0,
    }
    tally = Tally()
    tally.merge({"schedules": {"v1 json marks [pay] end > saved:1 > saved:1": record | changes}, "rates": {}})
    return Session(Covered(), tally, "default", seed=1, seconds=1.0)


def test_all_covered() -> None:
    """A session that has been everywhere misses nothing."""
    assert [] == gates(session())


MISSED: dict[str, dict[str, Any]] = {
    "json saved was passed in first lives, but the sweep never killed there": {"kills": [["json", "saved", "resume"]]},
    "json saved was passed in resumes, but the sweep never killed there": {"kills": [["json", "saved", "first"]]},
    "json other was passed in resumes, but the sweep never killed there": {
        "passed": [["json", "saved", "first"], ["json", "other", "resume"]]
    },
    "json saved was never passed": {"passed": [], "kills": []},
    "json was never resumed with a run that is held": {"hindered": []},
    "reconcile row 'verify: not done' was never met": {"rows": dict.fromkeys(ROWS, 1) | {"verify: not done": 0}},
}


@pytest.mark.parametrize("missed", MISSED)
def test_a_gate_that_is_not_met(missed: str) -> None:
    """Each kind of missing coverage is named by itself."""
    assert [missed] == gates(session(**MISSED[missed]))


class Powered(Covered):
    """A subject in which power can be lost on its one store."""

    power_stores = ("json",)


def powered(*losses: list[object]) -> Session:
    """A session that has covered everything else, with a schedule in which power was lost so."""
    whole = session()
    record = {"part": "power", "kills": [], "losses": losses, "passed": [], "hindered": [], "rows": {}, "overruns": 0}
    record["exposed"] = [["json", "saved"]]
    whole.tally.merge({"schedules": {"v1 json marks end > saved:1!": record}, "rates": {}})
    return replace(whole, subject=Powered())


def test_power_was_lost() -> None:
    """Where power can be lost it must have been, wherever it could, and not without taking anything away."""
    assert [] == gates(powered(["json", "saved", "!", True]))
    assert ["no loss of power on json took anything away"] == gates(powered(["json", "saved", "!", False]))
    assert ["no loss of power on json took anything away"] == gates(replace(session(), subject=Powered()))
    assert [
        "json saved was passed by lives that lose power, but never lost there",
        "no loss of power on json took anything away",
    ] == gates(powered())


def test_the_row_of_losses() -> None:
    """How often power was lost, where and how; or why it never was."""
    lost = [["json", "saved", "!", True], ["json", "other", "!", False], ["json", "saved", "!torn", True]]

    assert "power    3 losses at 2 crash points (json 3, ! 2, !data 0, !torn 1), 2 took something away\n" in summary(
        powered(*lost)
    )
    assert "power    never lost: the subject names no store on which its syncs can be seen (power_stores)\n" in summary(
        session()
    )


def test_luck_is_no_coverage() -> None:
    """What only the machine has killed at is not covered, and a session without its sweep is none."""
    assert [
        "json saved was passed in first lives, but the sweep never killed there",
        "json saved was passed in resumes, but the sweep never killed there",
        "the sweep did not run",
    ] == gates(session(part="machine"))


def test_the_summary_says_what_was_counted() -> None:
    """Kills a crash point, first lives and resumes apart, the rows of reconcile, and the schedules of each part."""
    text = summary(session())

    assert "  saved                                     1              1\n" in text
    assert "  unknown                        1\n" in text
    assert "resumes that had to be refused: damaged 0, incomplete 0, foreign 0, version 0, held 1\n" in text
    assert "sweep    1 schedules" in text
    assert "machine  0 schedules from --crash-seed 1, 0 planned kills overran" in text
