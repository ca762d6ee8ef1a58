"""Schedules worth keeping (`schedules.txt`), each with the reason above it."""

from __future__ import annotations

from pathlib import Path

from crashtests.schedule import Schedule, parse

PATH = Path(__file__).with_name("schedules.txt")


def regressions() -> list[Schedule]:
    """All kept schedules, in order. Raises `ScheduleError` for a line that is none."""
    lines = PATH.read_text(encoding="utf-8").splitlines()
    return [parse(line) for line in lines if line.strip() and not line.startswith("#")]


def keep(schedule: Schedule, reason: str) -> None:
    """Add a schedule. Raises `ValueError` without a reason, or if it is there already."""
    if not reason.strip() or "\n" in reason:
        raise ValueError("a schedule is kept with its reason, in one line")
    if schedule in regressions():
        raise ValueError(f"'{schedule}' is kept already")
    with PATH.open("a", encoding="utf-8") as file:
        file.write(f"\n# {reason.strip()}\n{schedule}\n")
