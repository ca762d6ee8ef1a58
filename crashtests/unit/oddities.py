"""Values that tools return and raise on a bad day, one by one and as a Hypothesis strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from hypothesis import strategies as st

from harness.outcome import raised, returned

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
TEXT = {"type": "text", "text": "a picture"}


class Unshowable:
    """Neither its repr nor its str can be made."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class ShoutingStr(str):
    """A str with methods of its own, none of which work."""

    def _no(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("not this way")

    __str__ = __repr__ = __format__ = strip = encode = _no


class BadBytes(bytes):
    """Bytes that cannot be made into bytes."""

    def __bytes__(self) -> bytes:
        raise RuntimeError("no bytes")


class BadList(list[Any]):
    """A list that cannot be looked into."""

    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("no items")


class BadDict(dict[str, Any]):
    """A dict that cannot be read."""

    def get(self, *args: Any) -> Any:
        raise RuntimeError("no get")

    def items(self) -> Any:
        raise RuntimeError("no items")


class OddlyNamed(Exception):
    """Its message is a str with methods of its own."""

    def __str__(self) -> str:
        return ShoutingStr("odd")


class Mute(Exception):
    """Its message cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no message")


def released() -> memoryview:
    view = memoryview(b"gone")
    view.release()
    return view


@cache
def nested(depth: int, leaf: Any = None) -> Any:
    """A list in a list in a list, made once, for the deep ones take their time; nobody may change it."""
    value = leaf
    for _ in range(depth):
        value = [value]
    return value


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


_ODD: list[Callable[[], Any]] = [Unshowable, BadBytes, BadList, BadDict, ShoutingStr, Mute, circular, released]
_anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.binary()
    | st.complex_numbers()
    | st.dates()
    | st.sampled_from(_ODD).map(lambda make: make())
    | st.sampled_from([TEXT, IMAGE, {"type": "text", "text": ""}, {"type": "image"}, nested(300)]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=2) | st.integers() | st.none(), inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "source"]), inner, max_size=3)
        | st.dictionaries(st.just("text"), inner).map(lambda d: {"type": "text"} | d)
        | st.sets(st.integers() | st.text(max_size=2), max_size=2)
    ),
    max_leaves=8,
)
_exceptions = st.sampled_from([ValueError, OSError, KeyError, Mute, OddlyNamed, UnicodeError]).flatmap(
    lambda kind: _anything.map(kind)
)
OUTCOMES = st.one_of(
    _anything.map(returned), _anything.map(lambda v: returned(v, is_error=True)), _exceptions.map(raised)
)
