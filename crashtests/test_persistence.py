"""Functions of a framework that are killed before and after: which points they pass, and what cannot be named."""

from __future__ import annotations

import asyncio

import pytest

from crashtests import persistence


class Store:
    """Stands for a framework's."""

    rows = 0

    def put(self, row: int) -> str:
        """Save, or refuse."""
        if row < 0:
            raise ValueError(row)
        return f"row {row}"

    async def aput(self, row: int) -> str:
        """Save from a coroutine."""
        return f"row {row}"


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The points that were passed since both functions are watched."""
    for name in ("put", "aput"):
        monkeypatch.setattr(Store, name, vars(Store)[name])  # so that it is put back
    points: list[str] = []
    persistence.listen({"put": f"{__name__}:Store.put", "aput": f"{__name__}:Store.aput"}, points.append)
    return points


def test_points(passed: list[str]) -> None:
    """A watched function does what it did, between two points of its name."""
    assert "row 1" == Store().put(1)
    assert "row 2" == asyncio.run(Store().aput(2))
    assert ["before-put", "after-put", "before-aput", "after-aput"] == passed


def test_a_function_that_raises(passed: list[str]) -> None:
    """What has raised has not saved: there is no point behind it."""
    with pytest.raises(ValueError, match="-1"):
        Store().put(-1)

    assert ["before-put"] == passed


@pytest.mark.parametrize("place", ["no_such_module:f", f"{__name__}:Store.no_such", f"{__name__}:Store.rows"])
def test_what_is_not_there(place: str) -> None:
    """A name that a new version of the framework no longer has is an error that names it, not a silence."""
    with pytest.raises(LookupError, match=place):
        persistence.find(place)
