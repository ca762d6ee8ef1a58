"""What a turn costs on each store: how it grows, and how it compares with the writes that it cannot do without.

Everything is a real `run_agent` with started marks, a model that answers in constant time and a tool that does
nothing; one call a turn, hence four durable writes: point A, the mark, the outcome, point B. What is compared is
measured side by side: the two sides take turns within one run of this program. Figures are medians, so a rare pause
(of the garbage collector, of a neighbour on the disk) is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from crashtests import bench_lives
from harness import JsonStore, SqliteStore, Store, Tool, run_agent

Hook = Callable[[int], None]

_USAGE = {"input_tokens": 100, "output_tokens": 20}
# By convention on a disk and kept over reboots, where /tmp often is memory.
_REAL_DISK = "/var/tmp" if os.path.isdir("/var/tmp") else None
_MEMORY = "/dev/shm"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: what was measured, against what, and the ratio that is promised, None if it is only reported."""

    what: str
    cost_ms: float
    against: str
    against_ms: float
    ratio_max: float | None
    legend: str

    @property
    def ratio(self) -> float:
        return self.cost_ms / self.against_ms

    @property
    def held(self) -> bool:
        return self.ratio_max is None or self.ratio <= self.ratio_max


class Bench:
    """A run of `turns` turns, and its clock, which stands still while `paused` and while the model is asked.

    `costs_ms[n]` is what turn n took, counted from 1. `between(n)` is called before turn n, off the clock.
    """

    name = "bench"

    def __init__(self, turns: int, *, calls: int = 1, between: Hook | None = None, in_tool: Hook | None = None) -> None:
        self.costs_ms = [0.0]
        self._turns = turns
        self._calls = calls
        self._between = between
        self._in_tool = in_tool
        self._since = 0.0
        self._off_clock = 0.0

    def run(self, store: Store) -> list[float]:
        """Start on `store` and run to the end; returns `costs_ms`."""
        tool = Tool("note", "Notes something.", {"type": "object"}, self._note)
        result = run_agent(self, "Take notes.", [tool], store, turns_max=self._turns + 1)
        if result.status != "done":
            raise RuntimeError(f"the run to measure ended early: {result.reason}")
        return self.costs_ms

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        turn = len(self.costs_ms)
        if self._since:
            self.costs_ms.append((time.perf_counter() - self._since - self._off_clock) * 1e3)
            turn += 1
        if turn > self._turns:
            return {"content": [], "stop_reason": "end_turn", "usage": _USAGE}
        if self._between is not None:
            self._between(turn)
        calls = [
            {"type": "tool_use", "id": f"toolu_{turn}_{n}", "name": "note", "input": {"about": f"turn {turn}"}}
            for n in range(self._calls)
        ]
        text = {"type": "text", "text": "I will take a note of that before I go on with the rest of the work."}
        self._off_clock = 0.0
        self._since = time.perf_counter()
        return {"content": [text, *calls], "stop_reason": "tool_use", "usage": _USAGE}

    def _note(self, arguments: dict[str, Any]) -> str:
        if self._in_tool is not None:
            began = time.perf_counter()
            self._in_tool(len(self.costs_ms))
            self._off_clock += time.perf_counter() - began
        return "noted, and kept for later"


def window(turn: int, width: int) -> range:
    """The turns around `turn`."""
    return range(turn - width // 2, turn + width // 2)


def median(costs_ms: list[float], turns: range) -> float:
    return statistics.median(costs_ms[turn] for turn in turns)


def sqlite_growth(directory: Path, *, early: int = 100, late: int = 10_000, width: int = 100) -> Row:
    """A late turn against an early one, of fresh runs that are made in between the late turns."""
    early_costs: list[float] = []

    def fresh_run(turn: int) -> None:
        if turn in window(late, width)[:: max(1, width // 5)]:
            costs = Bench(window(early, width).stop).run(SqliteStore(directory / f"early-{turn}"))
            early_costs.extend(costs[n] for n in window(early, width))

    costs = Bench(window(late, width).stop, between=fresh_run).run(SqliteStore(directory / "late"))
    return Row(
        f"sqlite, turn {late:,}",
        median(costs, window(late, width)),
        f"turn {early:,}",
        statistics.median(early_costs),
        1.2,
        "a save appends what is new; on a disk early turns may cost more, since they still lengthen the log file",
    )


class Floor:
    """The writes that a json turn cannot do without: `json.dumps` and an fsynced atomic write of the same values."""

    def __init__(self, store: JsonStore, directory: Path) -> None:
        self._store = store
        self._directory = directory
        self._values: list[tuple[str, Any]] = []
        directory.mkdir()

    def remember(self) -> None:
        """Note the values that were last written to both files."""
        for path in (self._store.checkpoint_path, self._store.ledger_path):
            self._values.append((path.name, json.loads(path.read_bytes())))

    def write(self, indent: int | None) -> float:
        """Write all that was noted; returns the time in ms."""
        began = time.perf_counter()
        for name, value in self._values:
            self._write(self._directory / name, json.dumps(value, indent=indent).encode())
        return (time.perf_counter() - began) * 1e3

    def forget(self) -> None:
        self._values.clear()

    def _write(self, path: Path, data: bytes) -> None:
        with open(f"{path}.tmp", "wb", buffering=0) as file:
            file.write(data)
            os.fsync(file.fileno())
        os.rename(f"{path}.tmp", path)
        fd = os.open(path.parent, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def json_against_floor(directory: Path, *, early: int = 100, late: int = 1000, width: int = 40) -> list[Row]:
    """A json turn against its floor, turn by turn, early and late in one run; and how much a turn grows."""
    store = JsonStore(directory / "json")
    floor = Floor(store, directory / "floor")
    watched = {*window(early, width), *window(late, width)}
    indented, compact = [0.0] * (late + width), [0.0] * (late + width)

    def in_tool(turn: int) -> None:
        if turn in watched:
            floor.remember()  # point A, and the ledger with the mark

    def between(turn: int) -> None:
        if turn - 1 in watched:
            floor.remember()  # point B, and the ledger with the outcome
            indented[turn - 1], compact[turn - 1] = floor.write(2), floor.write(None)
            floor.forget()

    costs = Bench(window(late, width).stop, between=between, in_tool=in_tool).run(store)
    rows = []
    for turn in (early, late):
        around = window(turn, width)
        same = (
            "what loop, hash and crash points add to json.dumps(indent=2) and fsynced atomic writes of the same files"
        )
        rows.append(
            Row(f"json, turn {turn:,}", median(costs, around), "same writes", median(indented, around), 1.5, same)
        )
        bare = "the same without indent, by the encoder in C: files that nobody could read"
        rows.append(
            Row(f"json, turn {turn:,}", median(costs, around), "bare writes", median(compact, around), None, bare)
        )
    costs_early, costs_late = (median(costs, window(turn, width)) for turn in (early, late))
    growth = "linear by design: each save writes the whole file (for long tasks take sqlite)"
    return [*rows, Row(f"json, turn {late:,}", costs_late, f"turn {early:,}", costs_early, None, growth)]


def campaign_turn(directory: Path, *, runs: int = 200) -> Row:
    """A turn of two calls, the third of its run, on each store: what a life of the campaign is made of."""
    costs: dict[str, list[float]] = {"json": [], "sqlite": []}
    for n in range(runs):
        costs["json"].append(Bench(3, calls=2).run(JsonStore(directory / f"json-{n}"))[3])
        costs["sqlite"].append(Bench(3, calls=2).run(SqliteStore(directory / f"sqlite-{n}"))[3])
    json_ms, sqlite_ms = statistics.median(costs["json"]), statistics.median(costs["sqlite"])
    legend = "two calls, five messages before it, in memory if there is /dev/shm: a life of the crash campaign"
    return Row("json, small turn", json_ms, "sqlite", sqlite_ms, None, legend)


def campaign_life(directory: Path) -> list[Row]:
    """A verified life of the campaign against processes that do no more than die, and against a cold one."""
    ms = bench_lives.measure(directory).medians()
    verified = "a life of a sweep on json: forked, killed or not, logged, read back and judged"
    return [
        Row("verified life", ms["verified"], "write, die", ms["writing"], 2.0, verified),
        Row("verified life", ms["verified"], "die", ms["empty"], None, "against fork, SIGKILL and wait, nothing else"),
        Row("verified life", ms["verified"], "cold life", ms["cold"], 1 / 30, "against `python -m harness`, killed"),
    ]


def campaign_workers() -> Row:
    """A verified life with two workers at a time against one with one: what they take from each other."""
    one, two = bench_lives.rates()
    legend = (
        f"{one:.0f} verified lives a second with one worker, {two:.0f} with two: an efficiency of {two / one / 2:.2f}"
    )
    return Row("life, two workers", 2e3 / two, "one worker", 1e3 / one, 1 / 0.85, legend)


def campaign_drawing() -> Row:
    """What Hypothesis costs."""
    drawn_ms, executed_ms = bench_lives.drawing()
    legend = "a schedule of the machine: what Hypothesis takes to draw it, of what it takes in all"
    return Row("drawn schedule", drawn_ms, "drawn, executed", executed_ms, None, legend)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state-dir", metavar="DIR", help=f"where to measure (default: {_REAL_DISK or 'temporary files'})"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(options: argparse.Namespace) -> int:
    """Measure and print; 1 if a ratio that is promised was not held."""
    with _directory(options.state_dir or _REAL_DISK) as disk:
        rows = [sqlite_growth(disk), *json_against_floor(disk)]
    with _directory(_MEMORY if os.path.isdir(_MEMORY) else options.state_dir) as memory:
        rows.append(campaign_turn(memory))
        rows += campaign_life(memory)
    rows += [campaign_workers(), campaign_drawing()]
    print(_as_json(rows) if options.json else _as_table(rows))
    return 0 if all(row.held for row in rows) else 1


@contextmanager
def _directory(parent: str | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=parent, prefix="crashtests-bench-") as directory:
        yield Path(directory)


def _as_json(rows: list[Row]) -> str:
    return json.dumps([asdict(row) | {"ratio": round(row.ratio, 3), "held": row.held} for row in rows], indent=2)


def _as_table(rows: list[Row]) -> str:
    lines = [f"{'what':22} {'cost':>9}   {'against':12} {'cost':>9}   {'ratio':>6}   target"]
    for row in rows:
        target = "reported" if row.ratio_max is None else f"<= {row.ratio_max:.3g}x  {'ok' if row.held else 'MISSED'}"
        sides = f"{row.what:22} {row.cost_ms:6.2f} ms   {row.against:12} {row.against_ms:6.2f} ms"
        lines += [f"{sides}   {row.ratio:5.2f}x   {target}", f"    {row.legend}"]
    return "\n".join(lines)
