"""The plan of a matrix and its judge, on stories: what is killed where, and the verdicts that stand for themselves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crashtests.contract import GUARANTEES, violations
from crashtests.evidence import Evidence
from crashtests.matrix import judge, plan
from crashtests.schedule import Kill, parse
from crashtests.scripted import ScriptedModel
from crashtests.stories import ID, USER, Loose, answer, ask, begun, ending, evidence, life, ran, result, turn
from crashtests.world import World, tools_of

LINE = "v1 json marks [pay] end > after-effect:1"
POINTS = [Kill("model-asked"), Kill("after-effect"), Kill("model-asked", 2)]


class Slow(Loose):
    """Its lives take seconds."""

    slow = True


class ReadsOnly(Loose):
    """Made for no tool that changes anything."""

    understands = frozenset({"read"})


def planned(subject: Any, evidence: Any = None) -> list[plan.Item]:
    """The plan, if every life passes `POINTS`."""
    passes: Any = SimpleNamespace(points=lambda place: POINTS)
    return list(plan.items(subject, lambda item: evidence or passes))


def test_every_point_is_killed_at() -> None:
    """The controls come first; then each script dies at each point that its control has passed, by label and count."""
    items = planned(Loose())
    scripts = plan.scripts(Loose())

    assert [plan.Item(plan.CONTROL, script) for script in scripts] == items[:4]
    for script, part in scripts.items():
        assert [plan.Item(part, plan.killed(script, kill)) for kill in POINTS] == [
            item for item in items if item.schedule.without_kills == script and item.part == part
        ]


def test_second_kills_and_loops() -> None:
    """In the resume of a kill that matters each point of that; and each point as a loop, which may come to an end."""
    items = planned(Loose())
    single = next(iter(plan.scripts(Loose())))
    second = [item.schedule.kills for item in items if item.part == plan.AGAIN]

    assert [(Kill("after-effect"), point) for point in POINTS] == second
    loops = [item for item in items if item.part == plan.LOOP]
    assert [plan.Item(plan.LOOP, plan.killed(single, *[kill] * 4), must_fire=False) for kill in POINTS] == loops


class OnTwoLegs(Loose):
    """Its framework runs a process of its own, whose code cannot be reached."""

    starts_processes = True
    delayed = (Kill("model-asked"),)


def test_a_process_of_its_own() -> None:
    """Where there is one, the host is also killed alone at each point, and at each delay after the events named."""
    items = planned(OnTwoLegs())
    alone = [item.schedule.kills for item in items if item.part == plan.HOST]
    late = [item.schedule for item in items if item.part == plan.DELAYED]

    assert [(Kill(point.label, point.n, alone=True),) for point in POINTS] * len(plan.scripts(Loose())) == alone
    single = next(iter(plan.scripts(Loose())))
    assert [plan.killed(single, Kill("model-asked", delay_ms=ms)) for ms in plan.DELAYS_MS] == late
    assert not {plan.HOST, plan.DELAYED} & {item.part for item in planned(Loose())}


def test_columns() -> None:
    """Every guarantee of the contract has its column."""
    assert set() == set(GUARANTEES) - set(judge.COLUMNS)


def test_less_for_the_slow() -> None:
    """A subject whose lives take seconds gets fewer scripts; one that takes none of them gets no plan."""
    assert [plan.KILL, plan.PARALLEL] == list(plan.scripts(Slow()).values())
    assert [] == planned(ReadsOnly())


def broken(found: Evidence, reference: Evidence | None = None) -> dict[str, list[str]]:
    """What is broken, against a run that ended done."""
    done = evidence("v1 json marks [pay] end", life(ask(1, USER), answer((ID, "pay")), ran(), ask(2, USER), ending()))
    return judge.broken(found, reference or done, Loose())


def test_a_session_that_is_lost() -> None:
    """Nothing to resume is a verdict once a tool has done something, and none before."""
    killed = life(ask(1, USER), answer((ID, "pay")), begun(), killed="after-effect:1")
    early = life(ask(1, USER), answer((ID, "pay")), killed="model-answered:1")

    lost = broken(evidence(LINE, killed, life(ending("missing"))))
    assert [f"life 2 found nothing to resume, although {ID} had run"] == lost[judge.SESSION_KEPT]
    assert judge.SESSION_KEPT not in broken(evidence(LINE, early, life(ending("missing"))))


def test_a_run_that_is_wedged() -> None:
    """A last resume that does not come to the end, with the reason it gave."""
    killed = life(ask(1, USER), answer((ID, "pay")), begun(), killed="after-effect:1")

    stuck = broken(evidence(LINE, killed, life(ending("stopped", "400 no result"))))
    assert "the last one ended 'stopped' (400 no result)" in stuck[judge.NOT_WEDGED][0]
    assert judge.NOT_WEDGED not in broken(evidence(LINE, killed, life(ending("done"))))


def test_what_a_subject_cannot_show() -> None:
    """What cannot be judged is not found to be broken, and has a reason."""

    class Unjudged(Loose):
        unjudged = {"AT-MOST-ONCE": "it says so"}  # noqa: RUF012  # as a subject would write it

    twice = evidence(LINE, life(ask(1, USER), answer((ID, "pay")), begun(), killed="after-effect:1"), life(ran()))

    assert {"AT-MOST-ONCE": "it says so", "NOTHING-LOST": "what it has saved is not read from outside"} == judge.cannot(
        Unjudged()
    )
    assert "AT-MOST-ONCE" in [each.guarantee for each in violations(twice, twice, Loose())]
    assert "AT-MOST-ONCE" not in [each.guarantee for each in violations(twice, twice, Unjudged())]


@pytest.mark.parametrize(("died", "is_error", "same"), [(True, True, True), (True, False, False), (False, True, False)])
def test_an_honest_unknown_in_other_words(died: bool, is_error: bool, same: bool) -> None:
    """An error for a call that was entered in a life that died is no other end; what is no error, or no unknown, is."""
    kill = "after-effect:1" if died else None
    first = life(ask(1, USER), answer((ID, "pay")), begun(), killed=kill)
    last = life(ask(2, USER, turn(), result("nobody knows", is_error=is_error)), answer(), ending())
    reference = evidence("v1 json marks [pay] end", life(ask(1, USER, turn(), result("paid")), answer(), ending()))

    assert same == ("SAME-END" not in broken(evidence(LINE, first, last), reference))


def test_a_tool_that_knows_only_its_step(tmp_path: Any) -> None:
    """The input names the step if it is asked to, and the tool runs as the call that was made last for it."""
    schedule = parse("v1 json marks [pay] end")
    for number in (1, 2):
        world = World(tmp_path / "world.log", number, lambda label: None)
        model = ScriptedModel(schedule, world, strict=False, names_steps=True)
        tools = [{"name": "pay", "description": "Pays.", "input_schema": {"type": "object"}}]
        request = {"model": "m", "max_tokens": 9, "messages": [USER], "tools": tools}
        (call,) = model.ask(request)["content"]

        assert {"amount": 5, "step": "1-1"} == call["input"]
        (tool,) = tools_of(iter(["pay"]), world)
        tool.run_step("1-1")
        assert [call["id"]] == [event["id"] for event in world.known() if event["event"] == "begin"][-1:]


def test_asks_are_numbered_from(tmp_path: Any) -> None:
    """A second process that asks at the same time mints ids of its own."""
    world = World(tmp_path / "world.log", 1, lambda label: None)
    model = ScriptedModel(parse("v1 json marks end"), world, strict=False, asks_from=50)

    assert "msg_51" == model.ask({"model": "m", "max_tokens": 9, "messages": [USER]})["id"]
