"""Run exactly one schedule, without pytest, and print its timeline.

Exit status: 0, every guarantee holds; 1, one is broken; 2, there is no such schedule or subject; 3, the subject did
what no life may do, so that nothing can be judged; 4, a planned kill was never reached, so that something else was run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from crashtests.campaign import Campaign, Nondeterminism
from crashtests.contract import Violation
from crashtests.contract import violations as judge
from crashtests.evidence import Evidence
from crashtests.execute import OURS, SubjectFault, executor
from crashtests.forkserver.client import ForkServerError
from crashtests.schedule import Hindrance, Kill, ScheduleError, parse
from crashtests.subject import SubjectError
from crashtests.timeline import render

HOLDS, BROKEN, USAGE, FAULT, OVERRUN = range(5)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_schedule(parser)
    parser.add_argument("--subject", metavar="PATH.py:NAME", default=OURS, help="the subject to run it on (ours)")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="run it until it breaks, N times at most")


def add_schedule(parser: argparse.ArgumentParser) -> None:
    """The argument that every subcommand about one schedule takes, and what the exit status means."""
    parser.add_argument("schedule", metavar="SCHEDULE", help="such as 'v1 json marks [pay] end > after-effect:1'")
    parser.epilog = (__doc__ or "").partition("\n\n")[2]


def run(options: argparse.Namespace) -> int:
    if options.times < 1:
        return complain(f"--times {options.times} must be 1 or more", USAGE)
    return with_evidence(options.schedule, options.subject, _show, times=options.times)


def with_evidence(line: str, subject: str, use: Callable[[Evidence, list[Violation]], int], *, times: int = 1) -> int:
    """Execute and judge a line, and `use` what was found; what prevents that is said in a line on stderr.

    `times`: a subject with threads of its own may break in one run and not in another, so it is run until it does.
    """
    try:
        schedule = parse(line)
        with executor(subject, warm_up=False) as execute:
            evidence, violations = Campaign(execute).check(schedule, "replay")
            runs = 1
            while not violations and runs < times:
                evidence = execute.again(schedule, cold=False)
                violations = judge(evidence, execute.reference(schedule), execute.subject)
                runs += 1
            if times > 1:
                print(f"run {runs} of at most {times}")
    except (ScheduleError, SubjectError, ForkServerError) as error:
        return complain(str(error), USAGE)
    except (SubjectFault, Nondeterminism) as error:
        return complain(str(error), FAULT)
    return use(evidence, violations)


def complain(says: str, status: int) -> int:
    print(f"crashtests: {says}", file=sys.stderr)
    return status


def _show(evidence: Evidence, violations: list[Violation]) -> int:
    print(render(evidence, violations))
    if problem := overrun(evidence):
        return complain(problem, OVERRUN)
    return BROKEN if violations else HOLDS


def overrun(evidence: Evidence) -> str | None:
    """Which planned kill was never reached or hindrance hindered nothing, and what happened; None if all fired."""
    for life in evidence.lives:
        if life.overrun:
            passed = ", ".join(dict.fromkeys(life.passed)) or "nothing"
            hindrance = isinstance(life.planned, Hindrance)
            late = isinstance(life.planned, Kill) and life.planned.delay_ms
            problem = (
                "had nothing saved to be hindered by" if hindrance else "was over before" if late else "never passed"
            )
            return (
                f"life {life.number} {problem} {life.planned}{'' if hindrance else ', so it was not killed'}; "
                f"what happened is '{evidence.schedule}'. It passed: {passed}"
            )
    return None
