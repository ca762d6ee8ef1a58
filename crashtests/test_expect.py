"""What is foretold of each pending call: the right way of every row passes, every other way is said to be wrong."""

from __future__ import annotations

import pytest

from crashtests.evidence import Evidence
from crashtests.expect import ROWS, foretell
from crashtests.stories import ID, USER, answer, ask, at, begun, ending, evidence, life, ran, verified
from crashtests.world import Event

SAVED = "save-a.renamed"
MARKED = "started.renamed"
RECORDED = "effect.renamed"

Story = list[Event]


def entered(tool: str) -> Story:
    """A run that has no effect, or whose effect is of no interest."""
    return [each for each in ran(ID, tool) if each["event"] != "effect"]


# Row of the table -> the tool, the protocol, what happened before the kill, and what the resume must do until it
# records the outcome.
RIGHT: dict[str, tuple[str, str, Story, Story]] = {
    "no such tool": ("ghost", "marks", [], []),
    "read-only: run": ("read", "marks", entered("read"), entered("read")),
    "not started: run": ("pay", "marks", [], [at(MARKED), *ran()]),
    "idempotent: run again": ("put", "marks", [at(MARKED), *begun(ID, "put")], ran(ID, "put")),
    "verify: done": ("mail", "marks", [at(MARKED), *begun(ID, "mail")], [verified("done")]),
    "verify: not done": ("mail", "marks", [at(MARKED)], [verified("not_done"), *ran(ID, "mail")]),
    "verify: cannot tell": ("guess", "marks", [at(MARKED), *begun(ID, "guess")], [verified("cannot_tell")]),
    "unknown": ("pay", "marks", [at(MARKED), *begun()], []),
}
# Without marks whatever was pending may have begun, whether it had or not.
WITHOUT_MARKS: dict[str, tuple[str, str, Story, Story]] = {
    "read-only: run": ("read", "no-marks", [], entered("read")),
    "idempotent: run again": ("put", "no-marks", [], ran(ID, "put")),
    "verify: not done": ("mail", "no-marks", [], [verified("not_done"), *ran(ID, "mail")]),
    "verify: cannot tell": ("blind", "no-marks", [], [verified("raises")]),
    "unknown": ("pay", "no-marks", [], []),
}
CASES = [(row, *case) for table in (RIGHT, WITHOUT_MARKS) for row, case in table.items()]


def resumed(tool: str, protocol: str, before: Story, after: Story, *, to_the_end: bool = True) -> Evidence:
    """A call that a life left pending, and what its resume did with it, up to the recorded outcome or not."""
    first = [ask(1, USER), answer((ID, tool)), at(SAVED), *before]
    rest = [at(RECORDED, "save-b.renamed"), ask(2, USER), answer(), ending()] if to_the_end else []
    return evidence(
        f"v1 json {protocol} [{tool}] end > after-save-a:1",
        life(first, killed="after-save-a:1"),
        life(after, rest, killed=None if to_the_end else "after-tool:1"),
    )


@pytest.mark.parametrize(("row", "tool", "protocol", "before", "after"), CASES)
def test_the_right_way(row: str, tool: str, protocol: str, before: Story, after: Story) -> None:
    """A resume that does what its row calls for is not blamed, and the row is counted once."""
    foretold = foretell(resumed(tool, protocol, before, after))

    assert [] == foretold.problems
    assert {row: 1} == +foretold.rows


@pytest.mark.parametrize(("row", "tool", "protocol", "before", "after"), CASES)
def test_every_other_way(row: str, tool: str, protocol: str, before: Story, after: Story) -> None:
    """A resume that does what another row calls for is blamed, over-caution included."""
    ways: list[Story] = [[], entered(tool), [verified("done")], [verified("not_done"), *entered(tool)]]
    ways += [[verified("cannot_tell")], [verified("not_done")], [*entered(tool), *entered(tool)]]
    right = names(after)
    unblamed = [
        names(way)
        for way in ways
        if names(way) != right and not foretell(resumed(tool, protocol, before, way)).problems
    ]

    assert [] == unblamed


def names(story: Story) -> list[str]:
    """What happened, with a verify that raises taken for one that cannot tell, as the harness takes it."""
    happened = [each.get("verdict") or each["event"] for each in story if each["event"] not in ("effect", "at")]
    return ["cannot_tell" if name == "raises" else name for name in happened]


@pytest.mark.parametrize(("row", "tool", "protocol", "before", "after"), CASES)
def test_killed_on_the_way(row: str, tool: str, protocol: str, before: Story, after: Story) -> None:
    """A resume that was killed half-way is not blamed for what it could not do, only for what it should not."""
    for upto in range(len(after) + 1):
        assert [] == foretell(resumed(tool, protocol, before, after[:upto], to_the_end=False)).problems
    if names(after)[:1] != ["begin"]:
        (problem,) = foretell(resumed(tool, protocol, before, entered(tool)[:1], to_the_end=False)).problems

        assert f"resume (life 2) of call {ID}: '{row}' does not allow begin" == problem


def test_what_is_recorded_is_reused() -> None:
    """A call whose outcome is on disk is not touched again, whatever its tool."""
    for tool in ("read", "put", "pay", "mail", "ghost"):
        story = [at(MARKED), *ran(ID, tool), at(RECORDED)] if tool != "ghost" else [at(RECORDED)]
        first = life([ask(1, USER), answer((ID, tool)), at(SAVED), *story], killed="after-effect-write:1")
        line = f"v1 json marks [{tool}] end > after-effect-write:1"
        right = foretell(evidence(line, first, life(at("save-b.renamed"), ending())))
        wrong = foretell(evidence(line, first, life(entered(tool), at("save-b.renamed"), ending())))

        assert ([], {"finished: reuse": 1}) == (right.problems, +right.rows)
        assert f"call {ID} was entered out of order; its turn had [] to settle" in wrong.problems
        assert f"resume (life 2) of call {ID}: 'finished: reuse' does not allow begin, end" in wrong.problems


def test_unknown_is_remembered() -> None:
    """A call that one resume has settled as unknown is finished for the next."""
    first = life([ask(1, USER), answer((ID, "pay")), at(SAVED, MARKED), *begun()], killed="after-effect:1")
    second = life(at(RECORDED), killed="after-effect-write:1")
    foretold = foretell(
        evidence("v1 json marks [pay] end", first, second, life(at("save-b.renamed"), ask(2, USER), ending()))
    )

    assert {"unknown": 1, "finished: reuse": 1} == +foretold.rows
    assert {ID: ("unknown", "State unknown")} == foretold.results


RESULTS = {
    "pay": ("marks", [at(MARKED), *ran()], ("real", "paid")),
    "none": ("marks", [at(MARKED), *ran(ID, "none")], ("real", "(no output)")),
    "deny": ("marks", [at(MARKED), *ran(ID, "deny", raised=True)], ("real", "ValueError: deny failed")),
    "ghost": ("marks", [], ("no tool", "ghost")),
}


def test_results() -> None:
    """What the model must be shown of a call that was settled in the life that made it."""
    shown = {}
    for tool, (protocol, story, _) in RESULTS.items():
        first = [ask(1, USER), answer((ID, tool)), at(SAVED), *story, at(RECORDED, "save-b.renamed"), ending()]
        shown[tool] = foretell(evidence(f"v1 json {protocol} [{tool}] end", life(first))).results[ID]

    assert {tool: expected for tool, (_, _, expected) in RESULTS.items()} == shown


PROBLEMS = {
    f"call {ID} was entered (begin) although its turn was never saved whole": [*ran(), at(SAVED)],
    "life 1 wrote effect.renamed with no call to settle": [at(SAVED), *ran(), at(RECORDED, RECORDED)],
    "life 1 wrote started.renamed with no call to settle": [at(MARKED, SAVED), *ran(), at(RECORDED)],
}


def test_order_within_a_life() -> None:
    """What was run before it was saved, and what was written of no call, is found without any kill."""
    for problem, story in PROBLEMS.items():
        foretold = foretell(evidence("v1 json marks [pay] end", life(ask(1, USER), answer((ID, "pay")), story)))

        assert problem in foretold.problems


def test_half_a_call_is_not_run() -> None:
    """The calls of a response that was cut short are not run, even if they were saved."""
    cut = {**answer((ID, "pay")), "stop_reason": "max_tokens"}
    foretold = foretell(evidence("v1 json marks [!max_tokens pay] end", life(ask(1, USER), cut, at(SAVED), ran())))

    assert f"call {ID} was entered (begin) although its turn was never saved whole" in foretold.problems


def test_order_of_calls() -> None:
    """The calls of a turn are settled one after the other, in the order in which the model made them."""
    other = "call_1-2_a1"
    turn = [ask(1, USER), answer((ID, "pay"), (other, "pay")), at(SAVED)]
    story = [at(MARKED), *ran(other), at(RECORDED), at(MARKED), *ran(ID), at(RECORDED)]
    foretold = foretell(evidence("v1 json marks [pay pay] end", life(turn, story)))

    assert f"call {other} was entered out of order; its turn had ['{ID}', '{other}'] to settle" in foretold.problems


def test_not_yet_durable() -> None:
    """A write is believed only behind the crash point at which it is on disk; before that it counts for nothing."""
    first = [ask(1, USER), answer((ID, "pay")), at(SAVED, "started.half-written", "started.written", "started.synced")]
    foretold = foretell(
        evidence(
            "v1 json marks [pay] end",
            life(first, killed="started.synced:1"),
            life(at(MARKED), ran(), at(RECORDED, "save-b.renamed"), ending()),
        )
    )

    assert ([], {"not started: run": 1}) == (foretold.problems, +foretold.rows)


@pytest.mark.parametrize(
    ("lost_at", "row"),
    [
        ("started.renamed:1!", "not started: run"),
        ("started.renamed:1!data", "unknown"),
        ("started.dir-synced:1!", "unknown"),
        ("started.after-commit:1!", "unknown"),
    ],
)
def test_a_write_that_a_loss_of_power_takes_back(lost_at: str, row: str) -> None:
    """A name that is not synced is lost with the names, and then its write was never made; not otherwise."""
    passed = [MARKED, lost_at.partition(":")[0]] if "renamed" not in lost_at else [MARKED]
    first = [ask(1, USER), answer((ID, "pay")), at(SAVED, *passed)]
    second: list[Story] = [[at(MARKED)], ran()] if row.endswith("run") else []
    foretold = foretell(
        evidence(
            "v1 json marks [pay] end",
            life(first, killed=lost_at),
            life(*second, at(RECORDED, "save-b.renamed"), ending()),
        )
    )

    assert ([], {row: 1}) == (foretold.problems, +foretold.rows)


def test_the_table_is_whole() -> None:
    """Every row that the summary counts is one of those tested here."""
    assert {*RIGHT, "finished: reuse"} == set(ROWS)


def test_what_a_life_asks_for_itself_is_run() -> None:
    """A call cannot have begun before the life that it was made in: it is run, not unknown, and nobody is asked."""
    made = [ask(1, USER), answer((ID, "mail")), at(SAVED)]
    stories: dict[str, Story] = {
        f"call {ID} was not run in the life that it was made in, and cannot have begun": [],
        f"verify was asked of call {ID} in the life that it was made in": [
            at(MARKED),
            verified("not_done"),
            *ran(ID, "mail"),
        ],
        f"call {ID} was entered before its started mark was on disk": ran(ID, "mail"),
    }
    for problem, story in stories.items():
        whole = life(made, story, at(RECORDED, "save-b.renamed"), ending())

        assert [problem] == foretell(evidence("v1 json marks [mail] end", whole)).problems
    unmarked = life(made, ran(ID, "mail"), at(RECORDED, "save-b.renamed"), ending())
    assert [] == foretell(evidence("v1 json no-marks [mail] end", unmarked)).problems
