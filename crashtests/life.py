"""A life: what one forked process does. The target of the fork server.

It builds the world, the scripted model and the tools for its schedule, arms the planned crash point, hands all of it
to the subject, and logs how the subject says it ended. It imports neither pytest nor Hypothesis.

A request is `{"schedule": line, "life": number, "resume": bool, "run": directory, "log": name, "tools_end": bool,
"kill": [label, n, loss, delay_ms, alone] | null, "watch": bool, "accepted": [digest]}`. `tools_end`: whether tools that
end the process do so; `watch`: whether this life or a later one is to lose power; `accepted`: see `ScriptedModel`.
For two resumes at once (rivals.py) also `"hold": [label, n, pipe, pipe]`, to say `HELD` at a crash point and wait for a
line, and `"asks_from": number`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from _thread import allocate_lock, start_new_thread  # not `threading`, which does work of its own at every fork
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

from crashtests import persistence, planted
from crashtests.forkserver.child import TargetError, die
from crashtests.kinds import PAUSE, WEB_SEARCH
from crashtests.powerloss.disk import Disk
from crashtests.powerloss.watch import watch
from crashtests.schedule import ANY, Kill, parse
from crashtests.scripted import MODEL_POINTS, ScriptedModel
from crashtests.subject import Ending, Life, Subject, SubjectError, load_subject
from crashtests.world import World, tools_of

STATUSES = {"done": 0, "stopped": 3, "refused": 4, "missing": 5, "raised": 6}
HELD = b"held\n"
TASK = "Do what the script says."

_subject: Subject


def prepare(setup: dict[str, Any]) -> None:
    """Load the subject `setup["subject"]`, with the planted bug `setup["planted"]`, if any, in its source.

    Raises `TargetError`, `PlantError`.
    """
    global _subject
    if edit := setup.get("planted"):
        planted.install(planted.Edit(**edit))
    try:
        _subject = load_subject(setup["subject"])
        _subject.prepare()
        for place in _subject.persistence.values():
            persistence.find(place)
    except SubjectError as error:
        raise TargetError(str(error)) from error
    except Exception as error:
        message = f"subject {setup['subject']!r} cannot be prepared: {type(error).__name__}: {error}"
        raise TargetError(message) from error
    if setup["warm_up"]:
        _warm_up()


def live(request: dict[str, Any]) -> int:
    """Live one life. Returns the exit status that `STATUSES` has for its ending."""
    schedule = parse(request["schedule"])
    run = Path(request["run"])
    disk = watch(run, schedule.store) if request["watch"] else None
    points = _Points(request["kill"], request.get("hold"), disk)
    edges = points if _subject.model_points else _ignore
    world = World(run / request["log"], request["life"], points, return_point=edges, tools_end=request["tools_end"])
    points.world = world
    persistence.listen(_subject.persistence, points)
    model = ScriptedModel(
        schedule,
        world,
        strict=_subject.strict,
        accepted=request["accepted"],
        names_steps=_subject.names_steps,
        asks_from=request.get("asks_from", 0),
        point=edges,
    )
    life = Life(
        state_dir=run / "state",
        resume=request["resume"],
        task=TASK,
        schedule=schedule,
        model=model,
        tools=tools_of(schedule.tool_kinds(), world),
        server_tools=[WEB_SEARCH]
        if {PAUSE, "server"} & {word for turn in schedule.turns for word in turn.beside}
        else [],
        point=points,
    )
    ending = _ending(life, world)
    points.close()
    if disk is not None:
        disk.keep()
    reason = ending.reason.replace(str(run), ".")
    world.log("ending", status=ending.status, reason=reason, told=ending.told, result=dict(ending.result))
    sys.stdout.flush()
    return STATUSES[ending.status]


def _ending(life: Life, world: World) -> Ending:
    """How the subject says that this life ended. An exception that leaves it is an ending too: its caller sees it.

    What the life did before is then judged like everything else. A tool that ends the process is no fault of the
    subject's, whether it lets that through or not; any other exit has said nothing.
    """
    try:
        ending = _subject.live(life)
        if not isinstance(ending, Ending) or ending.status not in STATUSES:
            raise TypeError(f"live() returned {ending!r}, not an Ending with one of its statuses")
        return ending
    except Exception as error:
        return Ending("raised", f"{type(error).__name__}: {error}")
    except (SystemExit, KeyboardInterrupt) as error:
        if not world.ended_by_tool:
            raise
        return Ending("stopped", type(error).__name__)


def _warm_up() -> None:
    """Live a few lives right here, before any fork, if the subject allows it.

    What they fill and specialize (caches of regular expressions, the interpreter's inline caches) would otherwise be
    filled in every life again, each time on a page that has to be copied first: most of the cost of a short life.
    """
    for store in _subject.stores * _subject.warm_ups:
        with tempfile.TemporaryDirectory() as run:
            schedule = f"v1 {store} marks [thinking read put pay mail][ghost deny] end"
            request = {
                "schedule": schedule,
                "life": 1,
                "run": run,
                "log": "world.log",
                "tools_end": False,
                "watch": False,
                "accepted": [],
            }
            live(request | {"resume": False, "kill": None})
            live(request | {"resume": True, "life": 2, "kill": None})


def _ignore(label: str) -> None:
    """For subjects with crash points of their own at their edges, the suite's add nothing."""


class _Points:
    """Counts the crash points that this life passes, logs them, and dies or waits at the planned one, or a while later.

    With a `disk`: what was not synced is lost there, if that is planned, or kept for a later life to lose.
    """

    world: World

    def __init__(self, kill: list[Any] | None, hold: list[Any] | None, disk: Disk | None) -> None:
        self._kill: tuple[Any, ...] | None = tuple(kill[:2]) if kill else None
        self._how: list[Any] = kill[2:] if kill else []
        self._hold = hold
        self._disk = disk
        self._passes: Counter[str] = Counter()
        self._total = 0
        self._closed = False
        self._lock = allocate_lock()  # a harness may pass them on threads of its own

    def __call__(self, label: str) -> None:
        with self._lock:
            self._passes[label] += 1
            self._total += 1
            self.world.passed(label)
            n = self._passes[label]
            if self._kill in ((label, n), (ANY, self._total)):
                self._kill = None
                kill = Kill(label, n, *self._how)
                if not kill.delay_ms:
                    self._die(kill)
                start_new_thread(self._die_later, (kill,))
        if self._hold and self._hold[:2] == [label, n]:
            self.world.log("held", label=f"{label}:{n}")
            self._wait(*self._hold[2:])
            self.world.log("released")

    def close(self) -> None:
        """Whoever has not died by now does not: the life is about to say how it ended."""
        with self._lock:
            self._closed = True

    def _die_later(self, kill: Kill) -> None:
        time.sleep(kill.delay_ms / 1000)
        with self._lock:
            if not self._closed:
                self._die(kill)

    def _die(self, kill: Kill) -> NoReturn:
        self.world.flush()
        if self._disk is not None and kill.loss:
            lost, others = self._disk.lose(kill.loss)
            self.world.log("power", lost=lost, others=others)
        elif self._disk is not None:
            self._disk.keep()
        die(str(kill))

    def _wait(self, says: str, listens: str) -> None:
        with open(says, "wb", buffering=0) as pipe:
            pipe.write(HELD)
        with open(listens, "rb", buffering=0) as pipe:
            pipe.readline()


__all__ = ["MODEL_POINTS", "STATUSES", "TASK", "live", "prepare"]
