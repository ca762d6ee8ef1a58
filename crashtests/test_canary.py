"""The canary: a harness with a broken reconcile, which every full session must catch.

If this is green although the planted bug is there, the alarm is dead, and no other green means anything.
"""

from __future__ import annotations

from dataclasses import asdict

from crashtests.campaign import Campaign
from crashtests.execute import executor
from crashtests.failure import broken
from crashtests.planted import Edit
from crashtests.schedule import parse
from crashtests.sweep import Task, sweep

# Whatever may have begun is simply run again.
CANARY = Edit("harness.reconcile", "    if call.effect is Effect.IDEMPOTENT:\n", "    if True:\n")


def test_canary() -> None:
    """A reconcile that runs an unknown side effect again is found by the sweep, with the smallest schedule there is."""
    with executor(planted=asdict(CANARY)) as execute:
        campaign = Campaign(execute)
        task = Task(parse("v1 json marks [pay] end"), kills=1, from_answer=1)
        found = [
            (evidence, violations)
            for evidence in sweep(task, lambda base, k: campaign.check(base, "canary", kill_at=k)[0])
            if (violations := campaign.violations(evidence.schedule, "canary"))
        ]
        text = broken(campaign, found[0][0].schedule, found[0][1]).report

    assert {v.guarantee for _, violations in found for v in violations} >= {"AT-MOST-ONCE", "TRUE"}
    assert "v1 json marks [pay] end > after-effect:1" in [str(evidence.schedule) for evidence, _ in found]
    assert "replay it:  pytest crashtests --replay 'v1 json marks [pay] end >" in text
