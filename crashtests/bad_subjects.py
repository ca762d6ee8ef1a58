"""Subjects that behave badly, one way each: what the tests of bad days hand to the campaign.

All but what is bad about them is the naive loop, so that an uninterrupted run of theirs would hold every guarantee.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crashtests.schedule import Schedule
from crashtests.subject import Ending, Life, Subject
from crashtests.subjects.naive import Naive
from crashtests.subjects.ours import Harness
from crashtests.wire import serving


class Hangs(Subject):
    """Waits for what never comes."""

    name = "hangs"

    def live(self, life: Life) -> Ending:
        while True:
            signal.pause()


class IgnoresSigterm(Hangs):
    """Waits, and will not be asked to leave."""

    name = "ignores SIGTERM"

    def live(self, life: Life) -> Ending:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return super().live(life)


class Leaves(Subject):
    """Exits with status 0 as if all were done."""

    name = "leaves"

    def live(self, life: Life) -> Ending:
        print("so long")
        sys.exit(0)


class LeavesAtOnce(Subject):
    """Exits past everything that Python would still do."""

    name = "leaves at once"

    def live(self, life: Life) -> Ending:
        os._exit(3)


class KillsItself(Subject):
    """Dies of a SIGKILL that no crash point has announced."""

    name = "kills itself"

    def live(self, life: Life) -> Ending:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


class Raises(Subject):
    """Lets an exception out."""

    name = "raises"

    def live(self, life: Life) -> Ending:
        raise LookupError("no such thing")


class RaisesOnResume(Naive):
    """Runs its tools a second time, and then lets an exception out."""

    name = "raises on resume"

    def live(self, life: Life) -> Ending:
        ending = super().live(life)
        if life.resume:
            raise LookupError("no such thing")
        return ending


class MisnamesAPoint(Subject):
    """Passes a crash point that no schedule could name."""

    name = "misnames a point"

    def live(self, life: Life) -> Ending:
        life.point("before save")
        return Ending("done")


class SaysNothing(Subject):
    """Returns None where its ending should be."""

    name = "says nothing"

    def live(self, life: Life) -> Ending:
        return None  # type: ignore[return-value]  # that is what is bad about it


class SaysAnything(Subject):
    """Ends with a word that is none of the endings."""

    name = "says anything"

    def live(self, life: Life) -> Ending:
        return Ending("finished")  # type: ignore[arg-type]  # that is what is bad about it


class DoesNothing(Subject):
    """Says that it is done, and has not even asked the model."""

    name = "does nothing"

    def live(self, life: Life) -> Ending:
        return Ending("done")


class StopsShort(Subject):
    """Stops in every life, for a reason, and never gets on."""

    name = "stops short"

    def live(self, life: Life) -> Ending:
        return Ending("stopped", "not today")


class FindsNothing(Subject):
    """Says at a fresh start that there is nothing to resume."""

    name = "finds nothing"

    def live(self, life: Life) -> Ending:
        return Ending("missing", "nothing here")


class NeedsMore(Subject):
    """Needs a module that is not installed, and notices before its first life."""

    name = "needs more"

    def prepare(self) -> None:
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401  # that is what is bad about it

    def live(self, life: Life) -> Ending:
        raise AssertionError("unreachable")


class NeedsMoreLater(Subject):
    """Needs a module that is not installed, and notices in its life."""

    name = "needs more later"

    def live(self, life: Life) -> Ending:
        import no_such_module  # noqa: F401  # that is what is bad about it

        raise AssertionError("unreachable")


class WritesOutside(Naive):
    """Keeps a file beside its state directory."""

    name = "writes outside"

    def live(self, life: Life) -> Ending:
        Path("notes.txt").write_text("kept where nobody looks")
        return super().live(life)


class WritesIntoTheLog(Naive):
    """Writes into the log of the world, which is none of its business."""

    name = "writes into the log"

    def live(self, life: Life) -> Ending:
        with Path("world.log").open("a") as log:
            log.write("half a line of something else\n")
        return super().live(life)


class PrintsGarbage(Naive):
    """Prints what is neither text nor finished, and what looks like an announced kill."""

    name = "prints garbage"

    def live(self, life: Life) -> Ending:
        os.write(1, b"\xff\x00{" * 10_000 + b"\n[kill] after-effect:1\n")
        os.write(2, b"\x1b]0;\x07" + bytes(range(256)))
        return super().live(life)


class LeavesAChild(Naive):
    """Forks a child that would outlive it by far."""

    name = "leaves a child"

    def live(self, life: Life) -> Ending:
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                signal.pause()
        return super().live(life)


class LeavesAWorker(Naive):
    """Not bad: its framework has a process of its own, which asks the model once more when its host is dead."""

    name = "leaves a worker"

    def live(self, life: Life) -> Ending:
        with serving(life.model, heir=life.model.afresh) as address:
            worker = [sys.executable, "-c", WORKER, address, str(os.getppid()), str(os.getpid())]
            with subprocess.Popen(worker, stdin=subprocess.PIPE) as child:
                ending = super().live(life)
                child.communicate(b"The host is well.")
                return ending


WORKER = """
import json, sys, urllib.request
from crashtests.forkserver.targets import wait_until_counted
if sys.stdin.read():
    sys.exit()
request = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Is anybody there?"}]}
urllib.request.urlopen(urllib.request.Request(sys.argv[1], json.dumps(request).encode())).read()
wait_until_counted(*map(int, sys.argv[2:]))
"""


class Waits(Subject):
    """Not bad: it passes a crash point of its own, and then does something that takes for ever."""

    name = "waits"

    def live(self, life: Life) -> Ending:
        if life.resume:
            return Ending("done")
        life.point("there")
        while True:
            signal.pause()


class InTurn(Subject):
    """Each of the above in turn, by the tool that the script begins with: one process for all of them."""

    name = "in turn"

    def live(self, life: Life) -> Ending:
        return IN_TURN[life.schedule.turns[0].calls[0]]().live(life)


IN_TURN: dict[str, type[Subject]] = {
    "read": Hangs,
    "put": IgnoresSigterm,
    "pay": Leaves,
    "mail": LeavesAtOnce,
    "guess": KillsItself,
    "lapse": MisnamesAPoint,
    "blind": Raises,
    "deny": SaysNothing,
    "bounce": SaysAnything,
    "empty": DoesNothing,
    "none": StopsShort,
    "zero": FindsNothing,
    "dict": NeedsMoreLater,
    "bytes": WritesOutside,
    "nan": WritesIntoTheLog,
    "ghost": PrintsGarbage,
    "big": LeavesAChild,
}


class NotOne:
    """No subject at all."""

    def __init__(self, *anything: Any) -> None: ...


class ForgetsTheDisk(Harness):
    """Our harness, but says of all states that they are alike."""

    name = "forgets the disk"

    def state_key(self, state_dir: Path) -> str | None:
        return "as ever"


class Boasts(Harness):
    """Our harness, but lists a crash point that it does not have."""

    name = "boasts"

    def labels(self, schedule: Schedule) -> Mapping[str, str]:
        return {**super().labels(schedule), "nowhere": "a moment that never comes"}


class SaysWhereItRuns(Subject):
    """Not bad, but it does nothing: it says which interpreter it runs in, and what that finds of pytest."""

    name = "says where it runs"

    def live(self, life: Life) -> Ending:
        return Ending("done", f"{sys.executable} {importlib.util.find_spec('pytest')}")
