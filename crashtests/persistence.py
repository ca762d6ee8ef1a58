"""Named functions of a framework, killed before and after each call: crash points where its code has none.

A subject names what its framework saves with (`Subject.persistence`), as `module:Class.method` or `module:function`.
In a life each is replaced by one that passes `before-NAME`, calls it, and passes `after-NAME`, on whatever thread it
is called. A call that raises passes no second point. This module does not know what the functions do.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

Point = Callable[[str], None]


def find(place: str) -> tuple[Any, str, Callable[..., Any]]:
    """(what holds it, its name there, the function). Raises `LookupError` with the name that is not there."""
    module, _, path = place.partition(":")
    *owners, name = path.split(".")
    try:
        owner = functools.reduce(getattr, owners, importlib.import_module(module))
        function = inspect.getattr_static(owner, name)
    except (ImportError, AttributeError) as error:
        raise LookupError(f"persistence function {place!r} is not there: {error}") from error
    if not inspect.isfunction(function):
        raise LookupError(f"persistence function {place!r} is a {type(function).__name__}, not a function or method")
    return owner, name, function


def listen(functions: Mapping[str, str], point: Point) -> None:
    """Replace each function, for the rest of this process, by one that passes its two crash points."""
    for label, place in functions.items():
        owner, name, function = find(place)
        setattr(owner, name, _watched(function, label, point))


def _watched(function: Callable[..., Any], label: str, point: Point) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*arguments: Any, **named: Any) -> Any:
            point(f"before-{label}")
            result = await function(*arguments, **named)
            point(f"after-{label}")
            return result

        return awaited

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        point(f"before-{label}")
        result = function(*arguments, **named)
        point(f"after-{label}")
        return result

    return called
