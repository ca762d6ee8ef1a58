"""What a loss of power leaves, told from the system calls of a life: the check of the model, which works otherwise.

`Replay` is fed with calls that change files or sync them, and says what is durable; it looks at no disk. `traced_life`
has strace write down the calls of one life in an interpreter of its own. Nothing but tests uses this. Not traced, since
there are no calls for it: what is written through mapped memory (sqlite's -shm file).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crashtests.powerloss.disk import torn

# What strace is asked for; it passes over those that the machine does not have ("?").
_CALLS = (
    *("open", "openat", "creat", "close", "dup", "dup2", "dup3", "lseek"),
    *("write", "writev", "pwrite64", "pwritev", "pwritev2", "truncate", "ftruncate", "fallocate", "copy_file_range"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat"),
    *("mkdir", "mkdirat", "rmdir", "fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync"),
)


def missing() -> str | None:
    """Why nothing can be traced here, None if it can."""
    return None if shutil.which("strace") else "strace is not installed, so the model is not checked by system calls"


@dataclass(eq=False, slots=True)
class Node:
    """A file or directory, now and as it was when it was last synced."""

    directory: bool
    content: bytes = b""
    names: dict[str, Node] = field(default_factory=dict)
    durable: bytes = b""
    durable_names: dict[str, Node] = field(default_factory=dict)


class Replay:
    """A directory `root` and its name in the one above, which at first is not there. Paths are absolute."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._above = Node(directory=True)

    def find(self, path: str) -> Node | None:
        """The file or directory at a path, None if it is not there, or not in `root`."""
        above, name = os.path.split(self._root)
        if path == above:
            return self._above
        if path != self._root and not path.startswith(self._root + "/"):
            return None
        node: Node | None = self._above
        for part in [name, *filter(None, path[len(self._root) :].split("/"))]:
            node = node.names.get(part) if node else None
        return node

    def _place(self, path: str) -> dict[str, Node] | None:
        """The names in which a path has its last part, None if that is not in `root`."""
        if path != self._root and not path.startswith(self._root + "/"):
            return None
        parent = self.find(os.path.dirname(path))
        return parent.names if parent else None

    def make(self, path: str, *, directory: bool) -> None:
        if (names := self._place(path)) is not None:
            names.setdefault(os.path.basename(path), Node(directory))

    def remove(self, path: str) -> None:
        if (names := self._place(path)) is not None:
            names.pop(os.path.basename(path))

    def rename(self, source: str, target: str) -> None:
        taken, given = self._place(source), self._place(target)
        if (taken is None) != (given is None):
            raise ValueError(f"rename({source!r}, {target!r}) goes in or out of {self._root}")
        if taken is not None and given is not None:
            given[os.path.basename(target)] = taken.pop(os.path.basename(source))

    @staticmethod
    def write(node: Node, data: bytes, offset: int) -> None:
        content = node.content.ljust(offset, b"\0")
        node.content = content[:offset] + data + content[offset + len(data) :]

    @staticmethod
    def truncate(node: Node, size: int) -> None:
        node.content = node.content[:size].ljust(size, b"\0")

    @staticmethod
    def sync(node: Node) -> None:
        node.durable, node.durable_names = node.content, dict(node.names)

    def left(self, loss: str) -> dict[str, bytes | None]:
        """What a loss (schedule.LOSSES) leaves: path below the directory above -> content, None for a directory."""
        return dict(self._left(self._above, loss, ""))

    def _left(self, directory: Node, loss: str, above: str) -> Iterator[tuple[str, bytes | None]]:
        for name, node in (directory.durable_names if loss == "!" else directory.names).items():
            content = {"": node.content, "!torn": torn(node.durable, node.content)}.get(loss, node.durable)
            yield f"{above}{name}", None if node.directory else content
            if node.directory:
                yield from self._left(node, loss, f"{above}{name}/")


_LINE = re.compile(r"(?P<call>\w+)\((?P<arguments>.*)\)\s+= (?P<result>-?\d+)")
_TEXT = re.compile(r'"(?P<hex>(?:\\x[0-9a-f]{2})*)"')


class _Reader:
    """Feeds a replay with what strace has written."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._open: dict[int, Node] = {}
        self._offsets: dict[int, int] = {}

    def read(self, line: str) -> None:
        match = _LINE.match(line)
        if match is None or int(match["result"]) < 0:
            return  # a call that failed has changed nothing
        arguments = [_argument(text) for text in match["arguments"].split(", ") if text != "AT_FDCWD"]
        name = re.sub(r"(at2?|64)$", "", match["call"]) if match["call"] != "creat" else "creat"
        self._call(name, arguments, int(match["result"]))

    def _call(self, name: str, arguments: list[Any], result: int) -> None:
        replay, node = (
            self._replay,
            self._open.get(arguments[0]) if arguments and isinstance(arguments[0], int) else None,
        )
        if name in ("open", "creat"):
            self._opened(os.fsdecode(arguments[0]), str(arguments[1]), result)
        elif name == "close":
            self._open.pop(arguments[0], None)
        elif name == "rename":
            replay.rename(os.fsdecode(arguments[0]), os.fsdecode(arguments[1]))
        elif name in ("unlink", "rmdir"):
            replay.remove(os.fsdecode(arguments[0]))
        elif name == "mkdir":
            replay.make(os.fsdecode(arguments[0]), directory=True)
        elif node is None:
            return  # not of this directory, or nothing that changes a file
        elif name == "write":
            replay.write(node, arguments[1][:result], self._offsets[arguments[0]])
            self._offsets[arguments[0]] += result
        elif name == "pwrite":
            replay.write(node, arguments[1][:result], arguments[3])
        elif name == "lseek":
            self._offsets[arguments[0]] = result
        elif name == "ftruncate":
            replay.truncate(node, arguments[1])
        elif name in ("fsync", "fdatasync"):
            replay.sync(node)
        else:
            raise ValueError(f"{name} of a file that is watched: what it does is not known here")

    def _opened(self, path: str, flags: str, descriptor: int) -> None:
        if self._replay.find(path) is None and "O_CREAT" in flags:
            self._replay.make(path, directory=False)
        node = self._replay.find(path)
        self._open.pop(descriptor, None)
        if node is not None:
            self._open[descriptor], self._offsets[descriptor] = node, 0
            if "O_TRUNC" in flags:
                node.content = b""


def _argument(text: str) -> int | bytes | str:
    """A number, what is between quotes, or else the text as it is (flags)."""
    if match := _TEXT.fullmatch(text):
        return bytes.fromhex(match["hex"].replace("\\x", ""))
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def traced_life(request: dict[str, Any], setup: dict[str, Any]) -> Replay:
    """Live a life (life.py) that loses power, and replay its calls up to the moment before. Needs strace."""
    run = Path(request["run"])
    calls = run.with_name(run.name + ".trace")
    trace = "trace=" + ",".join(f"?{call}" for call in _CALLS)
    command = ["strace", "-qq", "-xx", "-s", "100000000", "-e", trace, "-e", "signal=none", "-o", str(calls)]
    life = [sys.executable, "-P", "-c", "from crashtests.powerloss.trace import main; main()"]
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    done = subprocess.run(
        [*command, *life, json.dumps(request), json.dumps(setup)], cwd=run, env=env, capture_output=True, text=True
    )
    lines = calls.read_text().splitlines()
    marks = [place for place, line in enumerate(lines) if _is_logged(line, '"event": ')]
    if not marks or not _is_logged(lines[marks[-1]], '"event": "power"'):
        raise ValueError(f"the life did not lose power; it printed:\n{done.stdout}{done.stderr}")
    replay = Replay(str(run / "state"))
    reader = _Reader(replay)
    # After the last event but one the model itself changes the disk.
    for line in lines[: marks[-2]]:
        reader.read(line)
    return replay


def _is_logged(line: str, text: str) -> bool:
    return line.startswith("write(") and "".join(f"\\x{byte:02x}" for byte in text.encode()) in line


def main() -> None:
    """Be the traced life."""
    from crashtests import life
    from crashtests.forkserver import child

    request, setup = map(json.loads, sys.argv[1:3])
    child._witness = os.open(os.devnull, os.O_WRONLY)
    life.prepare(setup)
    sys.exit(life.live(request))
