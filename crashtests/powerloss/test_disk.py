"""The model of a disk: what each loss of power leaves of files that were synced, and of files that were not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crashtests.powerloss.disk import Disk, torn
from crashtests.powerloss.trace import Node, Replay
from crashtests.schedule import LOSSES

# The suite's own machinery: it changes seldom, and its tests take their time.
pytestmark = pytest.mark.slow

Tree = dict[str, bytes | None]


class Place:
    """A directory `root` that is modelled twice: by `Disk`, which looks at it, and by `Replay`, which does not."""

    def __init__(self, above: Path) -> None:
        self.root = above / "state"
        self.kept = above / "kept"
        self.replay = Replay(str(self.root))
        self.disk = Disk(self.root, self.kept)

    def mkdir(self, name: str) -> None:
        (self.root / name).mkdir()
        self.replay.make(str(self.root / name), directory=True)

    def write(self, name: str, data: bytes, at: int = 0) -> None:
        """Write into a file, which is made if it is not there."""
        path = self.root / name
        path.touch()
        with path.open("r+b") as file:
            file.seek(at)
            file.write(data)
        self.replay.make(str(path), directory=False)
        self.replay.write(self.node(name), data, at)

    def rename(self, source: str, target: str) -> None:
        (self.root / source).rename(self.root / target)
        self.replay.rename(str(self.root / source), str(self.root / target))

    def remove(self, name: str) -> None:
        (self.root / name).unlink()
        self.replay.remove(str(self.root / name))

    def sync(self, *names: str) -> None:
        """Sync files or directories; `..` is the one above."""
        for name in names:
            path = self.root.parent if name == ".." else self.root / name
            self.disk.synced(os.path.realpath(path))
            self.replay.sync(self.node(name))

    def node(self, name: str) -> Node:
        found = self.replay.find(str(self.root.parent if name == ".." else Path(os.path.normpath(self.root / name))))
        assert found is not None
        return found

    def next_life(self) -> None:
        """The model as the next life has it."""
        self.disk.keep()
        self.disk.close()
        self.disk = Disk(self.root, self.kept)

    def left(self, loss: str) -> Tree:
        """What is really there after a loss."""
        self.disk.lose(loss)
        self.disk.close()
        found = [*self.root.rglob("*"), *([self.root] if self.root.exists() else [])]
        return {str(p.relative_to(self.root.parent)): None if p.is_dir() else p.read_bytes() for p in found}


def nothing(place: Place) -> None:
    """Not even the directory is there."""


def only_written(place: Place) -> None:
    place.mkdir("")
    place.sync("..")
    place.write("a", b"12345678")


def content_synced(place: Place) -> None:
    only_written(place)
    place.sync("a")


def name_synced(place: Place) -> None:
    only_written(place)
    place.sync(".")


def directory_not_synced(place: Place) -> None:
    place.mkdir("")
    place.write("a", b"12345678")
    place.sync("a", ".")


def replaced_well(place: Place) -> None:
    content_synced(place)
    place.sync(".")
    place.write("a.tmp", b"abcd")
    place.sync("a.tmp")
    place.rename("a.tmp", "a")
    place.sync(".")


def replaced_without_the_directory(place: Place) -> None:
    content_synced(place)
    place.sync(".")
    place.write("a.tmp", b"abcd")
    place.sync("a.tmp")
    place.rename("a.tmp", "a")


def replaced_without_the_file(place: Place) -> None:
    content_synced(place)
    place.sync(".")
    place.write("a.tmp", b"abcd")
    place.rename("a.tmp", "a")
    place.sync(".")


def appended(place: Place) -> None:
    content_synced(place)
    place.sync(".")
    place.write("a", b"abcd", at=8)


def written_over(place: Place) -> None:
    content_synced(place)
    place.sync(".")
    place.write("a", b"abcd", at=2)


def removed(place: Place) -> None:
    content_synced(place)
    place.sync(".")
    place.remove("a")


def moved_with_one_sync(place: Place) -> None:
    content_synced(place)
    place.mkdir("old")
    place.sync(".")
    place.rename("a", "old/a")
    place.sync("old")


STATE: Tree = {"state": None}
WHOLE, HALF, EMPTY = b"12345678", b"1234", b""
LEFT: dict[Callable[[Place], None], tuple[Tree, Tree, Tree]] = {
    # what is done: what is left by "!", "!data" and "!torn"
    nothing: ({}, {}, {}),
    only_written: (STATE, {**STATE, "state/a": EMPTY}, {**STATE, "state/a": HALF}),
    content_synced: (STATE, {**STATE, "state/a": WHOLE}, {**STATE, "state/a": WHOLE}),
    name_synced: ({**STATE, "state/a": EMPTY}, {**STATE, "state/a": EMPTY}, {**STATE, "state/a": HALF}),
    directory_not_synced: ({}, {**STATE, "state/a": WHOLE}, {**STATE, "state/a": WHOLE}),
    replaced_well: ({**STATE, "state/a": b"abcd"},) * 3,
    replaced_without_the_directory: (
        {**STATE, "state/a": WHOLE},
        {**STATE, "state/a": b"abcd"},
        {**STATE, "state/a": b"abcd"},
    ),
    replaced_without_the_file: (
        {**STATE, "state/a": EMPTY},
        {**STATE, "state/a": EMPTY},
        {**STATE, "state/a": b"ab"},
    ),
    appended: (
        {**STATE, "state/a": WHOLE},
        {**STATE, "state/a": WHOLE},
        {**STATE, "state/a": WHOLE + b"ab"},
    ),
    written_over: (
        {**STATE, "state/a": WHOLE},
        {**STATE, "state/a": WHOLE},
        {**STATE, "state/a": b"12abc678"},
    ),
    removed: ({**STATE, "state/a": WHOLE}, STATE, STATE),
    moved_with_one_sync: (
        {**STATE, "state/a": WHOLE, "state/old": None, "state/old/a": WHOLE},
        {**STATE, "state/old": None, "state/old/a": WHOLE},
        {**STATE, "state/old": None, "state/old/a": WHOLE},
    ),
}


@pytest.mark.parametrize("done", LEFT, ids=lambda done: done.__name__)
def test_what_is_left(done: Callable[[Place], None], tmp_path: Path) -> None:
    """Each way of writing leaves what it should by each loss of power, in one life and if power is lost in the next."""
    found = []
    for number, loss in enumerate((*LOSSES, *LOSSES)):
        (above := tmp_path / str(number)).mkdir()
        place = Place(above)
        done(place)
        if number >= len(LOSSES):
            place.next_life()
        found.append(place.left(loss) if loss else None)

    assert [None, *LEFT[done]] * 2 == found


def test_what_was_there_is_durable(tmp_path: Path) -> None:
    """What the first life finds is taken for durable."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "a").write_bytes(b"old")

    assert {"state": None, "state/a": b"old"} == Place(tmp_path).left("!")


def test_a_number_given_away(tmp_path: Path) -> None:
    """A file that is made after another was removed is not taken for it, even if it could have its inode number."""
    place = Place(tmp_path)
    content_synced(place)
    place.sync(".")
    for data in (b"second", b"third"):
        place.remove("a")
        place.write("a", data)

    assert {"state": None, "state/a": WHOLE} == place.left("!")


def test_modes_are_kept(tmp_path: Path) -> None:
    """Files and directories come back as private as they were."""
    place = Place(tmp_path)
    content_synced(place)
    place.root.chmod(0o700)
    (place.root / "a").chmod(0o600)
    place.next_life()
    place.left("!torn")

    assert (0o700, 0o600) == (place.root.stat().st_mode & 0o777, (place.root / "a").stat().st_mode & 0o777)


def test_what_is_told(tmp_path: Path) -> None:
    """Each file that is not as it was is named, and the losses that would have left something else."""
    place = Place(tmp_path)
    replaced_without_the_file(place)
    place.write("b", b"x")
    lost, others = place.disk.lose("!")

    assert ["state/a is as it was before: 0 bytes, not 4", "state/b is gone"] == lost
    assert ["!data", "!torn"] == others


def test_other_files_are_of_no_interest(tmp_path: Path) -> None:
    """A sync of a file elsewhere, or of one that has no name any more, changes nothing."""
    place = Place(tmp_path)
    only_written(place)
    (tmp_path / "elsewhere").touch()
    place.disk.synced(str(tmp_path / "elsewhere"))
    place.disk.synced(str(tmp_path / "state" / "gone"))

    assert STATE == place.left("!")


def test_no_descriptors_are_left(tmp_path: Path) -> None:
    """Files that are gone for good are let go of: a long life does not run out of descriptors."""
    place = Place(tmp_path)
    content_synced(place)
    held = []
    for _ in range(20):
        place.write("a.tmp", b"abcd")
        place.sync("a.tmp")
        place.rename("a.tmp", "a")
        place.sync(".")
        held.append(len(os.listdir("/dev/fd")))
    place.disk.close()

    assert held[1] == held[-1]


@pytest.mark.parametrize(
    ("old", "new", "half"),
    [
        (b"", b"", b""),
        (b"", b"abcd", b"ab"),
        (b"ab", b"abcdef", b"abcd"),
        (b"abcdef", b"ab", b"abcdef"),
        (b"abcd", b"xy", b"xbcd"),
        (b"same", b"same", b"same"),
    ],
)
def test_torn(old: bytes, new: bytes, half: bytes) -> None:
    """The first half of what was not synced has got through, the rest is as it was."""
    assert half == torn(old, new)


_files = st.sampled_from(["a", "b", "c/a", "c/b"])
_steps = st.one_of(
    st.tuples(st.just("write"), _files, st.binary(min_size=1, max_size=4), st.integers(0, 4)),
    st.tuples(st.just("sync"), st.sampled_from(["a", "b", "c/a", "c/b", ".", "c", ".."])),
    st.tuples(st.just("rename"), _files, _files),
    st.tuples(st.just("remove"), _files),
    st.tuples(st.just("next_life")),
)


@given(steps=st.lists(_steps, max_size=20), loss=st.sampled_from([loss for loss in LOSSES if loss]))
@settings(max_examples=100, deadline=None, database=None, derandomize=True)
def test_two_models_agree(steps: list[tuple[object, ...]], loss: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever is written, renamed, removed and synced: the model that looks leaves what the one that counts says."""
    place = Place(tmp_path_factory.mktemp("disk"))
    place.mkdir("")
    place.mkdir("c")
    for name, *arguments in steps:
        if name in ("write", "next_life") or (place.root / str(arguments[0])).exists():
            getattr(place, str(name))(*arguments)
    expected = place.replay.left(loss)

    assert expected == place.left(loss)
