"""The benchmark measures what it says: real runs, the turns it names, and a floor that writes the same values."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from crashtests import bench, bench_lives
from crashtests.__main__ import main
from crashtests.bench import Bench, Row
from harness import JsonStore


def test_a_run_is_timed_turn_by_turn(fast_path: Path) -> None:
    """Every turn has its cost, is really saved, and what happens off the clock is not in it."""
    seen: list[int] = []
    measured = Bench(4, calls=2, between=seen.append, in_tool=seen.append)
    costs = measured.run(JsonStore(fast_path))
    scene, known = JsonStore(fast_path).read()

    assert 5 == len(costs)
    assert all(cost > 0 for cost in costs[1:])
    assert (4, "done", 8) == (scene.turns, scene.status, len(known.entries))
    assert [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4] == seen


def test_the_floor_writes_what_the_store_wrote(fast_path: Path) -> None:
    """For each write of a watched turn the floor makes one, of the same value: two checkpoints and two ledgers."""
    rows = bench.json_against_floor(fast_path, early=3, late=6, width=2)
    checkpoint = json.loads((fast_path / "floor" / "checkpoint.json").read_bytes())
    ledger = json.loads((fast_path / "floor" / "effects.json").read_bytes())

    assert 6 == checkpoint["turns"]
    assert [] == checkpoint["pending"]
    assert "finished" == ledger["calls"]["toolu_6_0"]["state"]
    assert [1.5, None, 1.5, None, None] == [row.ratio_max for row in rows]


def test_growth_is_measured_between_late_turns_and_fresh_runs(fast_path: Path) -> None:
    """Both sides of the sqlite figure are runs of their own, the early ones made while the late one goes on."""
    row = bench.sqlite_growth(fast_path, early=3, late=8, width=4)

    assert ("sqlite, turn 8", "turn 3", 1.2) == (row.what, row.against, row.ratio_max)
    assert 5 == len(list(fast_path.iterdir()))
    assert min(row.cost_ms, row.against_ms) > 0


def test_a_promise_that_is_not_held_shows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The table says which ratio missed its target, and so does the exit status; --json has the same figures."""
    held = Row("json", 1.4, "same writes", 1.0, 1.5, "what it adds")
    missed = replace(held, cost_ms=1.6)
    for name in ("sqlite_growth", "campaign_turn"):
        monkeypatch.setattr(bench, name, lambda directory: replace(held, ratio_max=None))
    monkeypatch.setattr(bench, "campaign_life", lambda directory: [])
    for name in ("campaign_workers", "campaign_drawing"):
        monkeypatch.setattr(bench, name, lambda: replace(held, ratio_max=None))

    for rows, status, word in (([held], 0, "<= 1.5x  ok"), ([held, missed], 1, "MISSED")):
        monkeypatch.setattr(bench, "json_against_floor", lambda directory, rows=rows: rows)
        assert status == main(["bench"])
        assert word in capsys.readouterr().out
        assert status == main(["bench", "--json"])
        figures = json.loads(capsys.readouterr().out)
        assert [1.4] * 2 == [row["ratio"] for row in figures[:2]]
        assert (status == 0) == all(row["held"] for row in figures)


@pytest.mark.slow
def test_workers_and_drawing_are_measured_on_real_lives() -> None:
    """Each of two workers lives what one does, at a time; to draw a schedule costs less than to execute it too."""
    (one,), two = bench_lives.spans(1), bench_lives.spans(2)
    rates = bench_lives.rates(rounds=1)
    drawn_ms, executed_ms = bench_lives.drawing(schedules=5)

    assert [one.lives] * 2 == [span.lives for span in two]
    assert one.lives > 0
    assert max(span.start for span in two) < min(span.end for span in two)
    assert min(rates) > 0
    assert 0 < drawn_ms < executed_ms
