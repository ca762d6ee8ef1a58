"""What of a directory is durable: its files as they were when they were last synced, under the names last synced.

The model follows POSIX, which promises less than any one file system gives: an fsync of a file makes its content
durable and not its name; an fsync of a directory makes the names in it durable and not the contents. Whatever was not
synced may be there after a loss of power, or not. `lose` makes one of the extremes (schedule.LOSSES).

Nothing is intercepted but the syncs: at each, the directory is looked at, so it does not matter how it was written.
A file is known by its inode, which is held open so that no other can get its number. What one life leaves unsynced
may still be lost in the next, so the model is kept in a file between lives. Regular files and directories only.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from crashtests.schedule import LOSSES

_Names = dict[str, int]
_Tree = dict[str, tuple[int, bytes | None]]
"""Path -> mode and content, None for a directory."""

# Shared memory of sqlite's connections: built anew by whoever opens the database first, and never synced.
_NOT_MEANT_TO_LAST = "-shm"


@dataclass(slots=True)
class _Inode:
    """A file, or a directory, and what of it is durable."""

    directory: bool
    mode: int
    held: int | None = None
    """The descriptor that keeps its number from being given away; None once it is nowhere on disk."""
    content: bytes = b""
    names: _Names = field(default_factory=dict)


class Disk:
    """The directory `root`, and its name in the directory above it. All there is counts as durable at first,

    unless `kept` is a file in which an earlier life kept what it knew.
    """

    def __init__(self, root: Path, kept: Path) -> None:
        self._root = root
        self._kept = kept
        self._inodes: dict[int, _Inode] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._next = 0
        self._above = self._number(root.parent)
        if kept.exists():
            self._recall()
            return
        for number, names in self._look().items():
            self._inodes[number].names = dict(names)
        for inode in self._inodes.values():
            inode.content = self._read(inode)

    def synced(self, descriptor_or_path: int | str) -> None:
        """A file or directory has just been synced. One that is not of this directory is of no interest."""
        try:
            status = os.stat(descriptor_or_path)
        except FileNotFoundError:
            return  # it has lost its name meanwhile
        place = status.st_dev, status.st_ino
        now = self._look() if place not in self._numbers or stat.S_ISDIR(status.st_mode) else {}
        if place not in self._numbers:
            return
        number = self._numbers[place]
        inode = self._inodes[number]
        if inode.directory:
            inode.names = dict(now[number])
        else:
            inode.content = self._read(inode)

    def lose(self, loss: str) -> tuple[list[str], list[str]]:
        """Take away what `loss` does (schedule.LOSSES).

        Returns a line for each file that is not as it was, and which losses would have left yet another state.
        """
        now = self._look()
        left = {each: self._left(each, now) for each in LOSSES}
        if self._root.exists():
            shutil.rmtree(self._root)
        for path, (mode, content) in left[loss].items():
            _make(self._root.parent / path, mode, content)
        self._kept.unlink(missing_ok=True)
        seen = [left[""], left[loss]]
        others = []
        for each, state in left.items():
            if all(list(_differences(one, state)) for one in seen):
                seen.append(state)
                others.append(each)
        return list(_differences(left[""], left[loss])), others

    def _left(self, loss: str, now: dict[int, _Names]) -> _Tree:
        """What a loss leaves."""
        names = {number: inode.names for number, inode in self._inodes.items()} if loss == "!" else now
        content = {"": self._read, "!torn": self._half}.get(loss, _durable)
        return {
            path: (inode.mode, None if inode.directory else content(inode))
            for path, number in self._paths(self._above, names)
            for inode in [self._inodes[number]]
        }

    def close(self) -> None:
        """Let go of all files. A life need not: it goes with them."""
        for inode in self._inodes.values():
            if inode.held is not None:
                os.close(inode.held)
                inode.held = None

    def keep(self) -> None:
        """Write down what is durable and what is not, for a life to come."""
        now = self._look()
        inodes = {
            number: [inode.directory, inode.mode, inode.content.decode("latin-1"), inode.names]
            for number, inode in self._inodes.items()
        }
        paths = dict(self._paths(self._above, now))
        self._kept.write_text(json.dumps({"inodes": inodes, "paths": paths, "above": self._above}))

    def _recall(self) -> None:
        kept = json.loads(self._kept.read_text())
        self._numbers.clear()
        for number, (directory, mode, content, names) in kept["inodes"].items():
            self._inodes[int(number)] = _Inode(directory, mode, None, content.encode("latin-1"), names)
        self._next = 1 + max(self._inodes)
        for path, number in {"": kept["above"], **kept["paths"]}.items():
            self._hold(self._root.parent / path, number)
        self._above = kept["above"]

    def _look(self) -> dict[int, _Names]:
        """The names that are in each directory now. What is neither there nor durable is forgotten."""
        now: dict[int, _Names] = {self._above: {}}
        if self._root.is_dir():
            now[self._above][self._root.name] = self._look_into(self._root, now)
        elif self._root.exists():
            now[self._above][self._root.name] = self._number(self._root)
        self._forget({number for names in now.values() for number in names.values()} | now.keys())
        return now

    def _look_into(self, directory: Path, now: dict[int, _Names]) -> int:
        number = self._number(directory)
        names = now[number] = {}
        with os.scandir(directory) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = directory / entry.name
                if entry.is_dir(follow_symlinks=False):
                    names[entry.name] = self._look_into(path, now)
                elif entry.is_file(follow_symlinks=False):
                    names[entry.name] = self._number(path)
        return number

    def _number(self, path: Path) -> int:
        """The number by which the file or directory at `path` is known here."""
        status = os.lstat(path)
        number = self._numbers.get((status.st_dev, status.st_ino))
        if number is None:
            number = self._next
            self._next += 1
            self._inodes[number] = _Inode(stat.S_ISDIR(status.st_mode), stat.S_IMODE(status.st_mode))
            self._hold(path, number)
        self._inodes[number].mode = stat.S_IMODE(status.st_mode)
        return number

    def _hold(self, path: Path, number: int) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        status = os.fstat(descriptor)
        self._inodes[number].held = descriptor
        self._numbers[status.st_dev, status.st_ino] = number

    def _forget(self, there: set[int]) -> None:
        """Let go of inodes that are neither `there` nor under a durable name of one that is known."""
        known: set[int] = set()
        to_follow = there
        while to_follow:
            known |= to_follow
            named = {number for directory in to_follow for number in self._inodes[directory].names.values()}
            to_follow = named - known
        for number in self._inodes.keys() - known:
            held = self._inodes.pop(number).held
            if held is not None:
                os.close(held)
        self._numbers = {inode: number for inode, number in self._numbers.items() if number in known}

    def _read(self, inode: _Inode) -> bytes:
        """What is in a file now."""
        if inode.directory or inode.held is None:
            return inode.content
        return os.pread(inode.held, os.fstat(inode.held).st_size, 0)

    def _half(self, inode: _Inode) -> bytes:
        return torn(inode.content, self._read(inode))

    def _paths(self, directory: int, names: dict[int, _Names], above: str = "") -> Iterator[tuple[str, int]]:
        """Every path below a directory, by these names, with its number."""
        for name, number in names.get(directory, {}).items():
            yield f"{above}{name}", number
            if self._inodes[number].directory:
                yield from self._paths(number, names, f"{above}{name}/")


def _durable(inode: _Inode) -> bytes:
    return inode.content


def _make(path: Path, mode: int, content: bytes | None) -> None:
    if content is None:
        path.mkdir(mode)
    else:
        path.write_bytes(content)
        path.chmod(mode)


def torn(old: bytes, new: bytes) -> bytes:
    """`new` as far as the middle of what differs from `old`, then what `old` has there."""
    shorter = min(len(old), len(new))
    same = next((place for place in range(shorter) if old[place] != new[place]), shorter)
    middle = same + (len(new) - same) // 2
    return new[:middle] + old[middle:]


def _differences(before: _Tree, after: _Tree) -> Iterator[str]:
    for path in sorted(before.keys() | after.keys()):
        if path.endswith(_NOT_MEANT_TO_LAST) or before.get(path) == after.get(path):
            continue
        if path not in after:
            yield f"{path} is gone"
        elif path not in before:
            yield f"{path} is back"
        else:
            yield f"{path} is as it was before: {len(after[path][1] or b'')} bytes, not {len(before[path][1] or b'')}"
