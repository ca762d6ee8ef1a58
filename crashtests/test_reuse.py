"""Lives that are not lived again: the evidence is that of lives that are, and a wrong saving is found out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crashtests import campaign as campaign_module
from crashtests.campaign import Campaign, Nondeterminism
from crashtests.evidence import trace
from crashtests.execute import Executor, executor
from crashtests.schedule import parse

# The suite's own machinery: it changes seldom, and its tests take their time.
pytestmark = pytest.mark.slow

# Kills that leave equal states, and kills that do not; both stores; a second kill from a remembered beginning.
SAMPLE = (
    "v1 json marks [read] end > save-a.written:1",
    "v1 json marks [read] end > save-a.synced:1",
    "v1 json marks [pay] end > after-effect:1",
    "v1 json marks [pay] end > after-tool:1",
    "v1 json marks [pay] end > effect.written:1",
    "v1 json marks [pay] end > effect.synced:1",
    "v1 sqlite no-marks [put] end > save-a.after-commit:1",
    "v1 sqlite no-marks [put] end > after-save-a:1",
    "v1 json marks [!max_tokens pay] end > - > after-effect:1",
    "v1 json marks over [pay] end > set-aside.ledger-moved:1",
    "v1 json marks [quit] end",
)


@pytest.fixture(scope="module")
def ours() -> Iterator[Executor]:
    with executor(warm_up=False) as execute:
        yield execute


def without_pids(execute: Executor, line: str, *, reuse: bool) -> object:
    schedule = parse(line)
    return trace(execute.execute(schedule) if reuse else execute.again(schedule, cold=False))


def test_the_same_evidence(ours: Executor) -> None:
    """With lives that are reused and without, every schedule of the sample leaves the same trace."""
    lived = {line: without_pids(ours, line, reuse=False) for line in SAMPLE}
    saved = ours.lives_saved
    reused = {line: without_pids(ours, line, reuse=True) for line in SAMPLE}

    assert 0 == saved
    assert ours.lives_saved >= 3  # else the sample shows nothing
    assert [] == [line for line in SAMPLE if lived[line] != reused[line]]


def test_the_same_evidence_from_a_beginning(ours: Executor) -> None:
    """A second kill that starts from what the first has left is the same as one whose first life was lived again."""
    base = parse("v1 json marks [pay] end > after-save-a:1")
    begun = [ours.execute(base, kill_at=k) for k in (1, 7, 20)]

    assert [trace(evidence) for evidence in begun] == [
        trace(ours.again(evidence.executed, cold=False)) for evidence in begun
    ]


def test_nothing_of_a_subject_that_cannot_tell() -> None:
    """A subject without a state key has all its lives lived."""
    with executor("crashtests.subjects.naive:Naive") as execute:
        for label in ("after-effect", "after-effect", "before-effect"):
            execute.execute(parse(f"v1 json marks [pay] end > {label}:1"))

        assert 0 == execute.lives_saved


def test_a_wrong_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subject that calls unlike states alike is found out by the schedules that are executed twice."""
    monkeypatch.setattr(campaign_module, "REPEAT_EVERY", 1)
    with executor("crashtests.bad_subjects:ForgetsTheDisk", warm_up=False) as execute:
        campaign = Campaign(execute)
        campaign.check(parse("v1 json marks [pay] end > started.half-written:1"), "reuse")
        with pytest.raises(Nondeterminism, match=r"'v1 json marks \[pay\] end > started.renamed:1': a second run"):
            campaign.check(parse("v1 json marks [pay] end > started.renamed:1"), "reuse")


def test_all_that_counts_is_in_the_key(ours: Executor) -> None:
    """The same disk after another script, another effect or another way of going on is another state."""
    lines = [
        "v1 json marks [pay] end > before-effect:1",
        "v1 json marks [pay] end > after-effect:1",
        "v1 json marks [pay] refusal > after-effect:1",
        "v1 json no-marks [pay] end > after-effect:1",
        "v1 json marks [pay pay] end > after-effect:1",
    ]
    branches: list[object] = [ours.execute(parse(line)).branch for line in lines]

    assert len(lines) == len(set(branches))
    assert None not in branches
