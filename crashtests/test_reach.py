"""What a schedule reaches: a search that leaves out where an edit is never met finds all that one finds without it."""

from __future__ import annotations

import pytest

from crashtests.bugs import bugs_named
from crashtests.edited import edited
from crashtests.execute import executor
from crashtests.reach import Reach, survey
from crashtests.schedule import parse
from crashtests.smallest import Search, resumes
from crashtests.sweep import Task

# It sweeps a little corpus, on the harness as it is and twice for each bug.
pytestmark = pytest.mark.slow

TASKS = [
    Task(parse(line), kills)
    for line, kills in (
        ("v1 json marks [deny] end", 0),
        ("v1 json marks [mail] end", 1),
        ("v1 json no-marks [pay] end", 1),
        ("v1 sqlite marks [pay] end", 2),
    )
]


@pytest.fixture(scope="module")
def reach() -> Reach:
    """What the corpus reaches."""
    return survey(TASKS, [schedule for task in TASKS for schedule in resumes(task)])


@pytest.mark.parametrize(
    "name", ["unknown is run again", "verify is not believed", "an unknown that is reused is no error"]
)
def test_what_is_left_out_would_have_held(name: str, reach: Reach) -> None:
    """The same schedules break the guarantee, in the same order, and it takes fewer lives to find them."""
    (bug,) = bugs_named([name])
    found, lives = [], []
    for met in (None, edited(bug.edit)):
        with executor(planted=bug.planted) as execute:
            search = Search(execute, bug.guarantee, reach, met)
            found.append([str(schedule) for task in TASKS for schedule in search.failing(task, "")])
            lives.append(execute.lives)

    assert found[0] == found[1]
    assert found[0]
    assert lives[1] < lives[0]
