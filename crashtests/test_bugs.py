"""Planted bugs: every edit still fits; the campaign finds each, and shrinks it to the smallest schedule there is."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest

from crashtests.bugs import BUGS, POWER_LOSS, PlantedBug, find
from crashtests.campaign import Campaign
from crashtests.contract import GUARANTEES, violations
from crashtests.execute import executor
from crashtests.failure import broken
from crashtests.planted import PlantError
from crashtests.powerloss import bound
from crashtests.schedule import parse
from crashtests.sweep import sweep

TENTHS = 10
# No family so small that one lucky schedule finds it all.
PER_FAMILY, IN_ALL = 4, 60

# The ways in which recovery breaks first are slow tests; all the others together are a matter of many minutes.
_FIRST = (
    "the ledger is not looked up",
    "no started mark",
    "no point A",
    "ledger after point B",
    "no temporary file",
    "unknown is not recorded",
    "a message for each result",
)
# The same of those that only a loss of power shows: the file, its name, its directory, the database.
_FIRST_UNSYNCED = (
    "the file is not synced",
    "renamed before it is synced",
    "the directory is not synced",
    "synchronous is off",
)


def _marked(bug: PlantedBug, slow: tuple[str, ...]) -> object:
    return pytest.param(bug, marks=pytest.mark.slow if bug.name in slow else pytest.mark.soak, id=bug.name)


_MARKED = [_marked(bug, _FIRST) for bug in BUGS]
_UNSYNCED = [_marked(bug, _FIRST_UNSYNCED) for bug in BUGS if bug.family == POWER_LOSS]


def test_every_edit_fits() -> None:
    """Each edit finds what it replaces exactly once, and what it makes of the module can still be compiled."""
    unfit = []
    for bug in BUGS:
        spec = importlib.util.find_spec(bug.edit.module)
        assert spec is not None
        assert spec.origin is not None
        try:
            compile(bug.edit.apply(Path(spec.origin).read_text()), bug.name, "exec")
        except (PlantError, SyntaxError) as error:
            unfit.append(f"{bug.name}: {error}")

    assert [] == unfit


def test_every_row_is_whole() -> None:
    """Names are there once, guarantees are the contract's, and the smallest schedules are written as they are read."""
    assert len(BUGS) == len({bug.name for bug in BUGS})
    assert set() == {bug.guarantee for bug in BUGS} - GUARANTEES.keys()
    assert [] == [bug.name for bug in BUGS if bug.smallest != str(parse(bug.smallest))]
    assert [] == [bug.name for bug in BUGS if not bug.why.endswith(".")]
    assert {} == {family: n for family, n in Counter(bug.family for bug in BUGS).items() if n < PER_FAMILY}
    assert len(BUGS) >= IN_ALL


def test_a_tenth(request: pytest.FixtureRequest) -> None:
    """In every session, other bugs in each: the smallest schedule shows the bug, and is what happens when it is run.

    If it loses power to show it, the same schedule with kills of the process alone does not.
    """
    rotation = request.config.option.crash_seed % TENTHS
    unseen = []
    for bug in BUGS[rotation::TENTHS]:
        with executor(planted=bug.planted, warm_up=False) as execute:
            evidence, found = Campaign(execute).check(parse(bug.smallest), "bugs")
            blind = bug.family == POWER_LOSS and Campaign(execute).check(parse(bug.smallest).without_losses, "bugs")[1]
        if bug.guarantee not in {v.guarantee for v in found} or str(evidence.schedule) != bug.smallest or blind:
            unseen.append(bug.name)

    assert [] == unseen


@pytest.mark.parametrize("bug", _UNSYNCED)
def test_what_killed_processes_do_not_show(bug: PlantedBug) -> None:
    """A bug that only a loss of power shows: wherever power is lost to find it, killing the process alone is green."""
    with executor(planted=bug.planted) as execute:
        campaign = Campaign(execute)
        kills = [
            evidence.schedule
            for task in bound.tasks(execute.subject, "default")
            if task.base.store == parse(bug.smallest).store
            for evidence in sweep(task, lambda base, k: campaign.check(base, "bugs", kill_at=k)[0])
        ]
        shown = [str(schedule) for schedule in kills if campaign.violations(schedule, "bugs")]
        kept, found = campaign.check(parse(bug.smallest).without_losses, "bugs")

    assert len(kills) > 50
    assert [] == shown
    assert str(kept.schedule) == str(parse(bug.smallest).without_losses)
    assert [] == found


@pytest.mark.parametrize("bug", _MARKED)
def test_planted_bug(bug: PlantedBug) -> None:
    """The campaign's own schedules find it, with the right guarantee; it shrinks to the smallest, which replays."""
    with executor(planted=bug.planted) as execute:
        found = find(Campaign(execute), bug)
        assert found is not None
        failure = broken(Campaign(execute), *found)
        line = re.findall(r"^replay it: +pytest crashtests --replay '(.*)'$", failure.report, re.MULTILINE)
        again = execute.again(parse(line[0]), cold=False)
        once_more = violations(again, execute.reference(again.schedule), execute.subject)

    assert bug.smallest == str(failure.schedule)
    assert f"BROKEN    {bug.guarantee}: " in failure.report
    assert [bug.smallest] == line
    assert bug.smallest == str(again.schedule)
    assert bug.guarantee in {violation.guarantee for violation in once_more}
