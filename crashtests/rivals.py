"""Two resumes at once: one is held at a crash point while another resumes the same run, and then goes on.

What a supervisor does that restarts too early. The first life dies as the schedule says; a resume is stopped at the
crash point of `--hold` and waits; a second resume runs to its end; then the first is let go. Both are real processes on
one state directory. Nothing depends on time: who waits for whom is fixed.

Exit status: 0, the second resume left the run alone; 1, both worked on it; 2, there is no such schedule or subject;
3, nothing can be judged; 4, a life never came to where it should be killed or held.
"""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crashtests.contract import happened_twice
from crashtests.evidence import LifeEvidence
from crashtests.execute import OURS, Executor, executor
from crashtests.forkserver.client import Death, ForkServer, ForkServerError
from crashtests.life import HELD
from crashtests.replay import BROKEN, FAULT, HOLDS, OVERRUN, USAGE, complain
from crashtests.schedule import Kill, Schedule, ScheduleError, parse, parse_kill
from crashtests.subject import SubjectError
from crashtests.timeline import life_lines
from crashtests.world import Event, LogReader

# Asks of the second resume are numbered from here, so that its calls have ids of their own.
_ASKS_FROM = 50


class NotThere(Exception):
    """A life never came to the crash point at which it should be killed or held. The message says which."""


@dataclass(frozen=True, slots=True)
class Rivals:
    """What happened: the life that was killed, the resume that was held, and the one that came between."""

    schedule: Schedule
    hold: Kill
    killed: LifeEvidence
    held: LifeEvidence
    between: LifeEvidence
    events: list[Event]

    @property
    def lives(self) -> tuple[LifeEvidence, ...]:
        return (self.killed, self.held, self.between)

    def violations(self) -> list[str]:
        """What was done on the run while a live process held it, in whichever process; nothing if it was left alone."""
        names = [event["event"] for event in self.events]
        meanwhile = self.events[names.index("held") : names.index("released") if "released" in names else None]
        did = [
            f"{what} {n} times (in life {', '.join(map(str, lives))})"
            for name, what in (("ask", "the model was asked"), ("begin", "tools were entered"))
            if (n := sum(event["event"] == name for event in meanwhile))
            and (lives := sorted({event["life"] for event in meanwhile if event["event"] == name}))
        ]
        if not did:
            return []
        begun = f"a second resume was begun while the first was held at {self.hold}: {' and '.join(did)}"
        return [begun, *happened_twice(self.events)]


def run_rivals(execute: Executor, schedule: Schedule, hold: Kill) -> Rivals:
    """Kill, hold, resume beside it, let go. `schedule` has one kill. Raises `NotThere`."""
    server = execute.server
    directory = server.new_run()
    try:
        return _run(_Stage(server, execute.another_server(), directory), schedule, hold)
    finally:
        server.drop_run(directory)


@dataclass(slots=True)
class _Stage:
    server: ForkServer
    rival: ForkServer
    directory: Path

    def live(self, server: ForkServer, schedule: Schedule, number: int, **more: Any) -> Death:
        request: dict[str, Any] = {
            "schedule": str(schedule),
            "life": number,
            "resume": number > 1,
            "run": str(self.directory),
            "log": "world.log",
            "accepted": [],
            "kill": None,
            "watch": False,
            "tools_end": True,
            "cwd": str(self.directory),
        }
        return server.run(request | more)


def _run(stage: _Stage, schedule: Schedule, hold: Kill) -> Rivals:
    (kill,) = schedule.kills
    if not isinstance(kill, Kill) or kill != Kill(kill.label, kill.n):
        raise NotThere(f"'{schedule}' does not kill its first life, and that alone")
    first = stage.live(stage.server, schedule, 1, kill=[kill.label, kill.n])
    if not first.killed:
        raise NotThere(f"the first life never passed {kill}")
    held, release = stage.directory / "held", stage.directory / "release"
    os.mkfifo(held)
    os.mkfifo(release)
    deaths: dict[int, Death] = {}
    holding = {"hold": [hold.label, hold.n, str(held), str(release)]}
    # Open at both ends here, so that no side ever waits for the other to open.
    with held.open("r+b", buffering=0) as says, release.open("r+b", buffering=0) as lets:

        def live_held() -> None:
            try:
                deaths[2] = stage.live(stage.server, schedule, 2, **holding)
            finally:
                says.write(b"ended\n")

        thread = threading.Thread(target=live_held)
        thread.start()
        came = says.readline() == HELD
        if came:
            deaths[3] = stage.live(stage.rival, schedule, 3, asks_from=_ASKS_FROM)
        lets.write(b"go\n")
        thread.join()
    if not came:
        raise NotThere(f"the resume never passed {hold}")
    events = LogReader(stage.directory / "world.log").read()
    killed, waited, between = (
        _life(number, death, events) for number, death in ((1, first), (2, deaths[2]), (3, deaths[3]))
    )
    return Rivals(schedule, hold, killed, waited, between, events)


def _life(number: int, death: Death, events: list[Event]) -> LifeEvidence:
    own = [event for event in events if event["life"] == number]
    return LifeEvidence(number, number > 1, None, death, own, None, None, None)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "schedule", metavar="SCHEDULE", help="with one kill, such as 'v1 json marks [pay] end > after-effect:1'"
    )
    parser.add_argument(
        "--hold", metavar="LABEL:N", required=True, help="where the first resume waits, such as before-effect:1"
    )
    parser.add_argument("--subject", metavar="PATH.py:NAME", default=OURS, help="the subject to run it on (ours)")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="until they meet and it breaks, N at most")
    parser.epilog = (__doc__ or "").partition("\n\n")[2].partition("\n\n")[2]


def run(options: argparse.Namespace) -> int:
    if options.times < 1:
        return complain(f"--times {options.times} must be 1 or more", USAGE)
    try:
        schedule, hold = parse(options.schedule), parse_kill(options.hold)
        if len(schedule.kills) != 1:
            return complain("two resumes need a schedule with one kill, and a crash point to hold one at", USAGE)
        with executor(options.subject, warm_up=False) as execute:
            found = _until_it_breaks(execute, schedule, hold, options.times)
    except (ScheduleError, SubjectError, ForkServerError) as error:
        return complain(str(error), USAGE)
    except NotThere as error:
        return complain(str(error), OVERRUN)
    _show(found, print)
    if any(life.death.timed_out for life in found.lives):
        return complain("a life did not end within its time limit", FAULT)
    return BROKEN if found.violations() else HOLDS


def _until_it_breaks(execute: Executor, schedule: Schedule, hold: Kill, times: int) -> Rivals:
    """The first run in which both worked on it, of so many; else the last in which they met. Raises `NotThere`."""
    met: Rivals | None = None
    missed = NotThere("nothing was run")
    for _ in range(times):
        try:
            met = run_rivals(execute, schedule, hold)
        except NotThere as error:
            missed = error
            continue
        if met.violations():
            break
    if met is None:
        raise missed
    return met


def _show(found: Rivals, say: Callable[[str], None]) -> None:
    say(f"schedule  {found.schedule}, its resume held at {found.hold} while another resumes")
    for life in found.lives:
        for line in life_lines(life):
            say(line)
    for text in found.violations() or ["the second resume left the run alone"]:
        say(f"{'BROKEN    ' if found.violations() else '          '}{text}")
