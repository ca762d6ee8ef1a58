"""Mutants: what each operator makes of a source, what is left alone, and that what comes out can be compiled."""

from __future__ import annotations

import pytest

from crashtests.mutate import OPERATORS, mutants

SOURCE = '''"""Two of 2."""
import os

LIMIT: int = 50


class Box:
    size = 1

    def fit(self, items: list[int | str], deep: bool = False) -> int | None:
        """At most 3."""
        while items and not self.full:
            self.size = len(items) + 7
            name = "text"
        if deep:
            raise ValueError(f"{len(items) + 1} of {name}")
        try:
            os.stat("here")
        except OSError:
            self.size -= 1
        finally:
            self.close()
        return items[0] if self.size >= 2 else None
'''

# What stands in a line before, and after.
MADE = [
    ("negated condition", "while items and not self.full:", "while (not (items and not self.full)):"),
    ("negated condition", "if deep:", "if (not (deep)):"),
    ("and/or", "while items and not self.full:", "while ((items) or (not self.full)):"),
    ("not removed", "while items and not self.full:", "while items and bool(self.full):"),
    ("constant", "LIMIT: int = 50", "LIMIT: int = 51"),
    ("constant", "size = 1", "size = 2"),
    ("constant", "size = 1", "size = 0"),
    (
        "constant",
        "def fit(self, items: list[int | str], deep: bool = False) -> int | None:",
        "def fit(self, items: list[int | str], deep: bool = True) -> int | None:",
    ),
    ("constant", "self.size = len(items) + 7", "self.size = len(items) + 8"),
    ("constant", "self.size -= 1", "self.size -= 2"),
    ("constant", "self.size -= 1", "self.size -= 0"),
    ("constant", "return items[0] if self.size >= 2 else None", "return items[1] if self.size >= 2 else None"),
    ("constant", "return items[0] if self.size >= 2 else None", "return items[0] if self.size >= 3 else None"),
    ("arithmetic", "self.size = len(items) + 7", "self.size = (len(items) - 7)"),
    ("arithmetic", "self.size -= 1", "self.size += 1"),
    ("statement left out", "self.size = len(items) + 7", "pass"),
    ("statement left out", 'raise ValueError(f"{len(items) + 1} of {name}")', "pass"),
    ("statement left out", 'os.stat("here")', "pass"),
    ("handler emptied", "self.size -= 1", "pass"),
    ("handler emptied", "self.close()", "pass"),
    ("return None", "return items[0] if self.size >= 2 else None", "return None"),
    ("comparison", "return items[0] if self.size >= 2 else None", "return items[0] if self.size > 2 else None"),
    ("comparison", "return items[0] if self.size >= 2 else None", "return items[0] if self.size < 2 else None"),
]


def test_operators() -> None:
    """Every mutant of a small module, and no other: texts, docstrings, annotations and f-strings are left alone."""
    made = [(mutant.operator, mutant.before, mutant.after) for mutant in mutants("box", SOURCE)]

    assert sorted(MADE) == sorted(made)
    assert set(OPERATORS) == {operator for operator, _, _ in MADE}


def test_places() -> None:
    """A mutant knows its function and its lines, and whether a life executes it or the import."""
    by_after = {mutant.after: mutant for mutant in mutants("box", SOURCE)}

    assert ("", True) == (by_after["LIMIT: int = 51"].function, by_after["LIMIT: int = 51"].at_import)
    assert ("Box", True) == (by_after["size = 2"].function, by_after["size = 2"].at_import)
    assert ("Box.fit", False, (15, 15)) == (
        by_after["if (not (deep)):"].function,
        by_after["if (not (deep)):"].at_import,
        by_after["if (not (deep)):"].lines,
    )
    default = by_after["def fit(self, items: list[int | str], deep: bool = True) -> int | None:"]
    assert default.at_import


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("x = a < b", ["x = a <= b", "x = a >= b"]),
        ("x = a <= b", ["x = a < b", "x = a > b"]),
        ("x = a > b", ["x = a >= b", "x = a <= b"]),
        ("x = a == b", ["x = a != b"]),
        ("x = a != b", ["x = a == b"]),
        ("x = (y := a) == (b)", ["x = (y := a) != (b)"]),
        ("x = (a, b) + (c)", ["x = ((a, b) - (c))"]),
        ("x = a is b", ["x = a is not b"]),
        ("x = a is not b", ["x = a is b"]),
        ("x = a in b", ["x = a not in b"]),
        ("x = a not in b", ["x = a in b"]),
        ("x = a | b", ["x = a", "x = b"]),
        ("x = a // b", ["x = (a * b)"]),
        ("x = [n for n in a if n]", ["x = [n for n in a if (not (n))]"]),
        ("x = 'é' if y else 1", ["x = 'é' if (not (y)) else 1", "x = 'é' if y else 2", "x = 'é' if y else 0"]),
        ("x = f'{a + 1}'", []),
        ("while a:\n    break", ["while (not (a)):", "pass"]),
    ],
)
def test_swaps(source: str, after: list[str]) -> None:
    """Each comparison has its opposite and its neighbour, each sum its difference; the rest of the line stays."""
    assert sorted(after) == sorted(mutant.after for mutant in mutants("some", source + "\n"))


def test_what_is_made_replaces_one_place() -> None:
    """Outside the lines that a mutant names, source and mutated source are the same."""
    for mutant in mutants("box", SOURCE):
        first, last = mutant.lines
        lines, mutated = SOURCE.splitlines(), mutant.mutated.splitlines()
        assert lines[: first - 1] == mutated[: first - 1]
        assert lines[last:] == mutated[len(mutated) - (len(lines) - last) :]
        assert mutant.edit.apply(SOURCE) == mutant.mutated
