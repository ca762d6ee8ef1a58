"""Damage at every byte of a small json state: each is refused, and nothing on disk changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from crashtests.unit import states
from harness import JsonStore, StateRefused


@pytest.fixture
def saved(fast_path: Path) -> JsonStore:
    """The sample."""
    store = JsonStore(fast_path)
    states.sample(store)
    return store


def assert_each_is_refused(store: JsonStore, path: Path, damaged: Iterator[bytes]) -> None:
    """Every content of `path` is refused, by name, and `read` leaves the file and its neighbours alone."""
    whole = path.read_bytes()
    for content in damaged:
        assert content != whole
        path.write_bytes(content)
        before = seen(store.directory)
        with pytest.raises(StateRefused) as refusal:
            store.read()
        assert before == seen(store.directory)
        assert content == path.read_bytes()
        assert path == refusal.value.path
        assert refusal.value.remedy
    path.write_bytes(whole)
    assert 2 == store.read()[0].turns


def seen(directory: Path) -> list[tuple[str, int, int]]:
    with os.scandir(directory) as found:
        return sorted((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in found)


@pytest.mark.parametrize("name", ["checkpoint.json", "effects.json"])
def test_a_file_cut_short_at_any_byte_is_refused(name: str, saved: JsonStore) -> None:
    """A torn file is never taken for a shorter one that was meant, not even without its last newline."""
    whole = (saved.directory / name).read_bytes()
    cuts = (whole[:size] for size in range(len(whole)))

    assert_each_is_refused(saved, saved.directory / name, cuts)


@pytest.mark.parametrize("name", ["checkpoint.json", "effects.json"])
def test_a_changed_byte_anywhere_is_refused(name: str, saved: JsonStore) -> None:
    """One byte with one bit flipped, or turned into another that JSON would bear (white space, a digit, a letter)."""
    whole = (saved.directory / name).read_bytes()
    alike = {ord("\n"): ord(" "), ord(" "): ord("\n"), ord("0"): ord("7"), ord("a"): ord("b")}

    def changed() -> Iterator[bytes]:
        for at, byte in enumerate(whole):
            others = {alike.get(byte, ord("a")): at % 4 == 0, byte ^ 1 << at % 8: at % 4 == 2}
            for other, drawn in others.items():
                if drawn or at < 100:
                    yield whole[:at] + bytes([other]) + whole[at + 1 :]

    assert_each_is_refused(saved, saved.directory / name, changed())


@pytest.mark.parametrize("name", ["checkpoint.json", "effects.json"])
def test_a_file_with_more_in_it_is_refused(name: str, saved: JsonStore) -> None:
    """What was appended or put before, or blocks of NUL from a lost page, do not pass."""
    whole = (saved.directory / name).read_bytes()
    pages = (whole[:at] + bytes(len(whole[at : at + 512])) + whole[at + 512 :] for at in range(0, len(whole), 64))
    more = (whole + tail for tail in (b"\n", b" ", b"\0", b"{}", whole))
    before = (head + whole for head in (b"\n", b" ", b"\xef\xbb\xbf", whole))

    assert_each_is_refused(saved, saved.directory / name, iter([*pages, *more, *before]))
