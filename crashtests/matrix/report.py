"""matrix.md: the verdicts as tables for a person, with what is needed to see each again. It only reads matrix.json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crashtests.matrix.judge import COLUMNS
from crashtests.matrix.plan import DELAYED, PARTS

# The guarantees of the first table: what costs money, and what ends a run.
SHORT = ("AT-MOST-ONCE", "TOLD", "PAIRED", "SESSION-KEPT", "NOT-WEDGED", "ONE-OWNER")


def markdown(matrix: dict[str, Any]) -> str:
    """The whole page."""
    subjects = matrix["subjects"]
    lines = [
        "# Crash matrix",
        "",
        f"{matrix['date']}; Python {matrix['python']} on {matrix['machine']}, {matrix['jobs']} subjects at a time, "
        f"{matrix['lives']} lives in {matrix['seconds']:.0f} s. Every kill is signal 9 from the kernel.",
        "",
        *short_table(subjects),
        "",
        "`0/N`: held in all N runs. **`n/N`**: broken in n of them. †: its documentation says so. ‡: a part is "
        "invalid, and left out (below). -: cannot be judged (below). No kill: the control.",
        "",
        "## All guarantees",
        "",
        *_table(subjects, list(COLUMNS)),
        "",
        *(f"- {name}: {what}" for name, what in COLUMNS.items()),
        "",
        "## By what was done to it",
        "",
        "Runs in which anything was broken, of all.",
        "",
        *_parts(subjects),
    ]
    if matrix["not_installed"]:
        lines += ["", "Not installed, so not run: " + ", ".join(matrix["not_installed"]) + "."]
    for subject in subjects:
        lines += ["", f"## {subject['name']}", "", *_details(subject)]
    return "\n".join(lines) + "\n"


def short_table(subjects: list[dict[str, Any]]) -> list[str]:
    """The first table: a line a subject, with its versions."""
    return _table(subjects, list(SHORT), versions=True)


def _table(subjects: list[dict[str, Any]], columns: list[str], *, versions: bool = False) -> list[str]:
    head = ["subject", *(["versions"] if versions else []), "no kill", *columns]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for subject in subjects:
        cells = [_cell(subject["cells"][name]) for name in columns]
        found = [_versions(subject)] if versions else []
        control = f"**broken ({len(subject['control'])})**" if subject["control"] else "whole"
        lines.append(f"| {' | '.join([subject['title'], *found, control, *cells])} |")
    return lines


def _versions(subject: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in subject["versions"].items()) or "this suite's"


def _cell(cell: dict[str, Any]) -> str:
    mark = " †" if cell["verdict"] == "broken" and "documented" in cell else ""
    mark += " ‡" if "invalid_parts" in cell else ""
    if cell["verdict"] == "cannot":
        return "-"
    if cell["verdict"] == "invalid":
        return "invalid"
    counts = f"{cell['n']}/{cell['of']}"
    return f"{counts if cell['verdict'] == 'holds' else f'**{counts}**'}{mark}"


def _parts(subjects: list[dict[str, Any]]) -> list[str]:
    lines = [f"| subject | {' | '.join(PARTS)} |", f"|{'---|' * (len(PARTS) + 1)}"]
    for subject in subjects:
        cells = [
            "invalid" if part["never_fired"] else f"{part['n']}/{part['of']}" if part["of"] else "-"
            for part in subject["parts"].values()
        ]
        lines.append(f"| {subject['title']} | {' | '.join(cells)} |")
    return lines


def _details(subject: dict[str, Any]) -> Iterator[str]:
    yield f"{subject['title']}. {_versions(subject)}. {subject['date']}."
    cost = subject["seconds_per_life"]
    if cost["warm"] and cost["cold"]:
        yield f"A kill and its resume: {cost['warm']:.2f} s forked, {cost['cold']:.2f} s in fresh interpreters."
    if subject["left_out"]:
        yield f"The time was up: {subject['left_out']} runs were left out."
    for part, lines in next(iter(subject["cells"].values())).get("invalid_parts", {}).items():
        yield f"Invalid: '{part}', for {len(lines)} kills did not fire where they were planned, such as `{lines[0]}`."
    if late := subject["parts"][DELAYED]["too_late"]:
        yield f"Of the kills at a delay {late} came too late, when the life had ended, and count for nothing."
    yield ""
    for says in subject["control"]:
        yield f"- without a kill: {says}"
    for guarantee, cell in subject["cells"].items():
        yield from _detail(guarantee, cell)


def _detail(guarantee: str, cell: dict[str, Any]) -> Iterator[str]:
    if cell["verdict"] == "cannot":
        yield f"- {guarantee} cannot be judged: {cell['why']}"
    if cell["verdict"] != "broken":
        return
    smallest = cell["smallest"]
    yield f"- **{guarantee}** broken in {cell['n']} of {cell['of']}: {smallest['says']}"
    if "documented" in cell:
        yield f"  - documented: {cell['documented']}"
    if smallest.get("again", {}).get("of"):
        yield f"  - {_again(cell)}"
    yield f"  - `{smallest['replay']}`"


def _again(cell: dict[str, Any]) -> str:
    """What came of running its schedules again, in words."""
    again, others = cell["smallest"]["again"], cell["smallest"]["others"]
    low, high = (100 * bound for bound in again["interval"])
    n, of = again["n"], again["of"]
    rate = f"{n} of {of} (95 % interval of the rate: {low:.0f} to {high:.0f} %)"
    if 2 * n >= of:
        less = "; smaller ones in fewer than half: " + ", ".join(map(_other, others)) if others else ""
        return f"the smallest that shows it again: broken in {rate}{less}"
    if n and others:
        return f"a race: of {len(others) + 1} schedules run again none broke in half; this one most often, in {rate}"
    if n:
        return f"a race: run again, it broke in {rate}"
    runs = of + sum(other["of"] for other in others)
    seen = "once" if cell["n"] == 1 else f"{cell['n']} times"
    return f"seen {seen} in {cell['of']} runs, and never again in {runs} more: a race; this schedule broke in {rate}"


def _other(other: dict[str, Any]) -> str:
    return f"`{other['schedule']}` in {other['n']} of {other['of']}"
