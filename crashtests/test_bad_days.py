"""Bad days: subjects that hang, leave, lie or break things get a verdict or an error that names them, and soon.

An error names the subject and the schedule; a verdict names the guarantee. None is a traceback of the campaign's own,
and none is silent.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crashtests.bad_subjects import (
    IN_TURN,
    DoesNothing,
    FindsNothing,
    Hangs,
    IgnoresSigterm,
    KillsItself,
    Leaves,
    LeavesAChild,
    LeavesAtOnce,
    MisnamesAPoint,
    NeedsMoreLater,
    PrintsGarbage,
    Raises,
    SaysAnything,
    SaysNothing,
    StopsShort,
    WritesIntoTheLog,
    WritesOutside,
)
from crashtests.campaign import Campaign
from crashtests.contract import Violation
from crashtests.evidence import Evidence, trace
from crashtests.execute import SubjectFault, executor
from crashtests.forkserver.client import ForkServerError
from crashtests.schedule import parse
from crashtests.subject import Subject, SubjectError, load_subject

# The suite's own machinery: it changes seldom, and its tests take their time.
pytestmark = pytest.mark.slow

LINE = "v1 json marks [pay] end"
LIMIT_S = 0.2


def judge(name: str, line: str = LINE) -> tuple[Evidence, list[Violation]]:
    """What the campaign finds for a bad subject."""
    with executor(f"crashtests.bad_subjects:{name}", life_timeout_s=LIMIT_S) as execute:
        return Campaign(execute).check(parse(line), "bad days")


@pytest.fixture(scope="module")
def in_turn() -> Iterator[Campaign]:
    """A campaign against all bad subjects in turn, chosen by the schedule."""
    with executor("crashtests.bad_subjects:InTurn", life_timeout_s=LIMIT_S) as execute:
        yield Campaign(execute)


def line_for(subject: type[Subject]) -> str:
    (kind,) = [kind for kind, each in IN_TURN.items() if each is subject]
    return f"v1 json marks [{kind}] end"


FAULTS: dict[type[Subject], str] = {
    Hangs: "did not end within its time limit and was killed after 0.2 s",
    IgnoresSigterm: "did not end within its time limit and was killed after 0.2 s",
    Leaves: "exited with status 0 without saying how it ended; it printed:\nso long",
    LeavesAtOnce: "exited with status 3 without saying how it ended",
    KillsItself: "died of signal 9 that no crash point announced",
    MisnamesAPoint: "passed a crash point 'before save': a label is a letter, then letters, digits, _ . - (not 'any')",
    FindsNothing: "was a fresh start and said that there is nothing to resume",
    WritesOutside: "wrote outside its state directory: notes.txt",
    WritesIntoTheLog: "wrote into the world's log",
}


@pytest.mark.parametrize("subject", FAULTS)
def test_a_life_that_cannot_be_judged(subject: type[Subject], in_turn: Campaign) -> None:
    """What is no ending at all is an error that names the subject, the life, the schedule and what happened."""
    begin, line = time.monotonic(), line_for(subject)
    with pytest.raises(SubjectFault) as fault:
        in_turn.check(parse(line), "bad days")

    assert str(fault.value).startswith(f"subject in turn: life 1 of schedule '{line}' {FAULTS[subject]}")
    assert "Traceback" not in str(fault.value)
    assert time.monotonic() - begin < 20  # a limit, not a measure: nothing hangs


@pytest.mark.parametrize("kill_at", [1, 2])
def test_a_kill_at_a_point_that_no_schedule_can_name(kill_at: int, in_turn: Campaign) -> None:
    """Killed there or not, it is the same error: the line could not be replayed."""
    with pytest.raises(SubjectFault, match="passed a crash point 'before save'"):
        in_turn.check(parse(line_for(MisnamesAPoint)), "bad days", kill_at=kill_at)


def test_a_fault_names_the_subject() -> None:
    """The error of a subject that is alone with the campaign bears its name."""
    with pytest.raises(SubjectFault, match=f"^subject leaves: life 1 of schedule '{re.escape(LINE)}' exited"):
        judge("Leaves")


VERDICTS: dict[type[Subject], str] = {
    Raises: "HONEST-EXIT: life 1 did not say how it ended: LookupError: no such thing",
    NeedsMoreLater: "HONEST-EXIT: life 1 did not say how it ended: "
    "ModuleNotFoundError: No module named 'no_such_module'",
    SaysNothing: "HONEST-EXIT: life 1 did not say how it ended: "
    "TypeError: live() returned None, not an Ending with one of its statuses",
    SaysAnything: "HONEST-EXIT: life 1 did not say how it ended: "
    "TypeError: live() returned Ending(status='finished', reason='', told=''), not an Ending with one of its statuses",
    DoesNothing: "PROGRESS: even uninterrupted the model is asked 0 times; the script has more to say",
    StopsShort: "PROGRESS: even uninterrupted the run ends 'stopped', not 'done'",
}


@pytest.mark.parametrize("subject", VERDICTS)
def test_a_life_that_breaks_a_guarantee(subject: type[Subject], in_turn: Campaign) -> None:
    """What is an ending, but no good one, breaks a guarantee, even where it ends the same without any kill."""
    _, violations = in_turn.check(parse(line_for(subject)), "bad days")

    assert VERDICTS[subject] in map(str, violations)


def test_an_exception_does_not_hide_what_the_life_did() -> None:
    """Effects that happened twice are found although the life that repeated them ended with an exception."""
    _, violations = judge("RaisesOnResume", "v1 json marks [read][pay] end > after-effect:2")

    assert "AT-MOST-ONCE" == violations[0].guarantee
    assert "HONEST-EXIT" in {violation.guarantee for violation in violations}


def test_garbage_in_the_output(in_turn: Campaign) -> None:
    """What a life prints is of no meaning: neither bytes that are no text nor a kill that was not one."""
    evidence, violations = in_turn.check(parse(line_for(PrintsGarbage)), "bad days")

    assert [] == violations
    assert None is evidence.last.killed_at


def test_a_child_that_outlives_its_life(in_turn: Campaign) -> None:
    """It is killed when its life has ended, and does no harm; the evidence counts it."""
    evidence, violations = in_turn.check(parse(line_for(LeavesAChild)), "bad days")

    assert [] == violations
    assert [1] == [life.death.survivors for life in evidence.lives]


def test_a_subject_that_needs_what_is_missing() -> None:
    """A subject whose imports fail is an error that names it and the module, before any life."""
    with pytest.raises(ForkServerError, match=r"subject 'crashtests.bad_subjects:NeedsMore' cannot be prepared: "):
        judge("NeedsMore")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("naive.py", "subject 'naive.py' is not of the form path/to/file.py:Class or package.module:Class"),
        ("no/such.py:Naive", "subject 'no/such.py:Naive' cannot be loaded: FileNotFoundError"),
        ("no_such:Naive", "subject 'no_such:Naive' cannot be loaded: ModuleNotFoundError: No module named 'no_such'"),
        ("crashtests.bad_subjects:Gone", "subject 'crashtests.bad_subjects:Gone' cannot be loaded: AttributeError"),
        ("crashtests.bad_subjects:NotOne", "subject 'crashtests.bad_subjects:NotOne' is a NotOne, not a crashtests"),
        ("crashtests.subject:Subject", "subject 'crashtests.subject:Subject' cannot be loaded: TypeError"),
    ],
)
def test_a_subject_that_cannot_be_loaded(spec: str, says: str) -> None:
    """The error names what was asked for and why it will not do."""
    with pytest.raises(SubjectError) as error:
        load_subject(spec)

    assert str(error.value).startswith(says)


def test_a_subject_that_exits_while_it_is_imported(tmp_path: Path) -> None:
    """A file that ends the process when it is imported is an error like any other."""
    path = tmp_path / "leaving.py"
    path.write_text("raise SystemExit(0)")
    with pytest.raises(SubjectError, match="cannot be loaded: SystemExit: 0"):
        load_subject(f"{path}:Subject")


def test_a_bad_life_ends_no_other(in_turn: Campaign) -> None:
    """After a fault the same process judges the next schedule as if nothing had been."""
    good = parse(line_for(PrintsGarbage))
    before = trace(in_turn.executor.execute(good))
    with pytest.raises(SubjectFault):
        in_turn.check(parse(line_for(KillsItself)), "bad days")

    assert before == trace(in_turn.executor.execute(good))
