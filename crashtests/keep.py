"""Keep a schedule as a regression, with the reason beside it.

It is executed once before: a schedule whose kills are not all reached would test nothing, and is refused. One that
breaks a guarantee now is kept, since that is what it is for.
"""

from __future__ import annotations

import argparse

from crashtests.contract import Violation
from crashtests.evidence import Evidence
from crashtests.execute import OURS
from crashtests.regressions import keep
from crashtests.replay import HOLDS, OVERRUN, USAGE, add_schedule, complain, overrun, with_evidence


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_schedule(parser)
    parser.add_argument("reason", metavar="REASON", help="what it once showed, in one line")


def run(options: argparse.Namespace) -> int:
    def use(evidence: Evidence, violations: list[Violation]) -> int:
        if problem := overrun(evidence):
            return complain(problem, OVERRUN)
        try:
            keep(evidence.schedule, options.reason)
        except ValueError as error:
            return complain(str(error), USAGE)
        print(f"kept: {evidence.schedule}")
        for violation in violations:
            print(f"it breaks {violation}")
        return HOLDS

    return with_evidence(options.schedule, OURS, use)
