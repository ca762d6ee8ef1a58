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
from crashtests.evidence import Evidence
from crashtests.execute import OURS, Executor, SubjectFault, executor
from crashtests.forkserver.client import ForkServerError
from crashtests.matrix import judge
from crashtests.schedule import Hindrance, Kill, ScheduleError, parse
from crashtests.subject import SubjectError
from crashtests.timeline import render

HOLDS, BROKEN, USAGE, FAULT, OVERRUN = range(5)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_schedule(parser)
    parser.add_argument("--subject", metavar="PATH.py:NAME", default=OURS, help="the subject to run it on (ours)")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="run it until it breaks, N times at most")
    parser.add_argument("--guarantee", metavar="NAME", help="until this one breaks, such as TOLD; it alone decides")


def add_schedule(parser: argparse.ArgumentParser) -> None:
    """The argument that every subcommand about one schedule takes, and what the exit status means."""
    parser.add_argument("schedule", metavar="SCHEDULE", help="such as 'v1 json marks [pay] end > after-effect:1'")
    parser.epilog = (__doc__ or "").partition("\n\n")[2]


def run(options: argparse.Namespace) -> int:
    if options.times < 1:
        return complain(f"--times {options.times} must be 1 or more", USAGE)
    if options.guarantee not in (None, *judge.OF_ONE_RESUME):
        known = ", ".join(judge.OF_ONE_RESUME)
        return complain(f"--guarantee {options.guarantee!r} is none of: {known}", USAGE)

    def breaks(violations: list[Violation]) -> bool:
        return any(options.guarantee in (None, violation.guarantee) for violation in violations)

    def show(evidence: Evidence, violations: list[Violation]) -> int:
        print(render(evidence, violations))
        if problem := overrun(evidence):
            return complain(problem, OVERRUN)
        return BROKEN if breaks(violations) else HOLDS

    return with_evidence(options.schedule, options.subject, show, times=options.times, breaks=breaks)


def with_evidence(
    line: str,
    subject: str,
    use: Callable[[Evidence, list[Violation]], int],
    *,
    times: int = 1,
    breaks: Callable[[list[Violation]], bool] = bool,
) -> int:
    """Execute and judge a line, and `use` what was found; what prevents that is said in a line on stderr.

    `times`: a subject with threads of its own may break in one run and not in another, so it is run until it `breaks`.
    """
    try:
        schedule = parse(line)
        with executor(subject, warm_up=False) as execute:
            evidence, _ = Campaign(execute).check(schedule, "replay")
            violations = _violations(execute, evidence)
            runs = 1
            while (evidence.overruns or not breaks(violations)) and runs < times:
                evidence = execute.again(schedule, cold=False)
                violations = _violations(execute, evidence)
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


def _violations(execute: Executor, evidence: Evidence) -> list[Violation]:
    """What is broken, of the contract and of what the matrix judges besides."""
    found = judge.broken(evidence, execute.reference(evidence.schedule), execute.subject)
    return [Violation(guarantee, says) for guarantee, told in found.items() for says in told]


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
