"""Where an edit is met: never later than anything can be different, and not much earlier."""

from __future__ import annotations

import pytest

from crashtests import edited as module
from crashtests.edited import edited
from crashtests.planted import Edit

SOURCE = """\
LIMIT = 3

class Loop:
    tries = 1

    def turn(self, calls, limit=LIMIT):
        first = calls[0]
        if first and (
            limit
        ):
            run(first)
            note(first)
        try:
            save()
        except OSError:
            warn()
        return first
"""


@pytest.fixture(autouse=True)
def _a_module_of_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "source_of", lambda name: SOURCE)


MET = {
    "a statement": ("run(first)", "run(calls)", [11]),
    "its condition": ("first and (", "first or (", range(8, 13)),
    "inserted before another": ("            note(first)\n", "            wait()\n            note(first)\n", [12]),
    "inserted behind, at the end of its block": ("note(first)", "note(first)\n            wait()", [12]),
    "inserted with another indentation": (
        "            note(first)\n",
        "            note(first)\n        wait()\n",
        range(13, 17),
    ),
    "left out": ("        first = calls[0]\n", "", [7]),
    "an else": (
        "            note(first)\n",
        "            note(first)\n        else:\n            wait()\n",
        range(8, 13),
    ),
    "two exchanged": ("run(first)\n            note(first)", "note(first)\n            run(first)", [11, 12]),
    "what is caught": ("except OSError:", "except ValueError:", range(13, 17)),
    "how what is caught is handled": ("warn()", "pass", [16]),
    "another kind of statement": ("return first", "yield first", [17]),
    "moved into a block": (
        "            warn()\n        return first",
        "            warn()\n            return first",
        range(13, 18),
    ),
}


@pytest.mark.parametrize("name", MET)
def test_met_where_it_is_executed(name: str) -> None:
    """By the lines of the statements that are replaced, or of the next that tells whether it is passed."""
    before, after, lines = MET[name]

    assert frozenset(f"loop.{line}" for line in lines) == edited(Edit("harness.loop", before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("tries = 1", "tries = 2"),
        ("limit=LIMIT", "limit=2"),
        ("class Loop:", "class Loop(dict):"),
    ],
)
def test_met_at_import(before: str, after: str) -> None:
    """What is executed when a module is imported, each life has met."""
    assert edited(Edit("harness.loop", before, after)) is None
