"""Shrinking, on a subject of thought: which candidates it tries, that it ends, and that it ends at the smallest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from crashtests.schedule import LOSSES, Kill, Schedule, parse
from crashtests.shrink import order, shrink, simpler

Breaks = Callable[[Schedule], bool]


def points(schedule: Schedule) -> list[Kill]:
    """What a life passes in thought: a request, then each call, then the save, turn by turn."""
    passed: list[str] = []
    for turn in schedule.turns:
        passed.append("before-model")
        for call in turn.calls:
            passed += ["mark.written"] if call == "pay" and schedule.store == "json" else []
            passed += ["before-effect", "after-effect", "after-tool"]
        passed += ["save.after-commit"] if schedule.store == "sqlite" else ["save.written", "save.renamed"]
        passed.append("after-save-b")
    passed.append("before-model")
    return [Kill(label, passed[: place + 1].count(label)) for place, label in enumerate(passed)]


def shrunk(line: str, breaks: Breaks) -> str:
    """What a line is shrunk to if exactly those schedules fail for which `breaks` holds."""
    tried: list[Schedule] = []

    def fails(candidate: Schedule) -> Schedule | None:
        tried.append(candidate)
        passed = points(candidate)
        happened = replace(candidate, kills=tuple(k for k in candidate.deaths if replace(k, loss="") in passed))
        return happened if breaks(happened) else None

    def passes(schedule: Schedule, place: int) -> list[Kill]:
        all_points = points(schedule)
        kill = schedule.kills[place] if place < len(schedule.kills) else None
        kill = replace(kill, loss="") if isinstance(kill, Kill) else None
        return all_points[: all_points.index(kill) + 1] if kill in all_points else all_points

    smallest = shrink(parse(line), fails, passes)
    assert len(tried) < 2000
    return str(smallest)


def calls(schedule: Schedule) -> list[str]:
    return [call for turn in schedule.turns for call in turn.calls]


def labels(schedule: Schedule) -> set[str]:
    return {kill.label for kill in schedule.kills if isinstance(kill, Kill)}


BIG = (
    "v1 sqlite no-marks over [thinking read pay][pause][text mail dict pay pay] refusal > after-effect:6 > after-tool:1"
)


def test_all_that_does_not_matter_goes() -> None:
    """What fails whenever a pay is made and a process killed behind an effect is one turn, one call, one kill."""

    def breaks(schedule: Schedule) -> bool:
        return "pay" in calls(schedule) and "after-effect" in labels(schedule)

    assert "v1 json marks [pay] end > after-effect:1" == shrunk(BIG, breaks)


def test_what_matters_stays() -> None:
    """Each thing that the failure needs is kept, and nothing else."""
    needs: dict[str, Breaks] = {
        "v1 sqlite marks end": lambda schedule: schedule.store == "sqlite",
        "v1 json no-marks end": lambda schedule: not schedule.marks,
        "v1 json marks over end": lambda schedule: schedule.over,
        "v1 json marks refusal": lambda schedule: schedule.end == "refusal",
        "v1 json marks [dict] end": lambda schedule: "dict" in calls(schedule),
        "v1 json marks [pause] end": lambda schedule: any(not turn.calls for turn in schedule.turns),
        "v1 json marks [text read] end": lambda schedule: any("text" in turn.beside for turn in schedule.turns),
        "v1 json marks [pay pay] end": lambda schedule: calls(schedule).count("pay") > 1,
        "v1 json marks [read][read] end": lambda schedule: sum(bool(turn.calls) for turn in schedule.turns) > 1,
        "v1 json marks [pay] end > after-effect:1 > after-tool:1": lambda schedule: (
            {"after-effect", "after-tool"} <= labels(schedule) and "pay" in calls(schedule)
        ),
    }

    assert list(needs) == [shrunk(BIG, breaks) for breaks in needs.values()]


def test_a_kill_goes_to_the_earliest_point() -> None:
    """Where any crash point will do, it is the first that the life passes; labels have no order of their own."""

    def anywhere(schedule: Schedule) -> bool:
        return "pay" in calls(schedule) and bool(labels(schedule))

    def behind_the_effect(schedule: Schedule) -> bool:
        return bool(labels(schedule) & {"after-save-b", "after-tool", "after-effect"}) and "pay" in calls(schedule)

    assert "v1 json marks [pay] end > before-model:1" == shrunk("v1 json marks [pay] end > after-save-b:1", anywhere)
    assert "v1 json marks [pay] end > after-effect:1" == shrunk(
        "v1 json marks [pay] end > after-save-b:1", behind_the_effect
    )


def test_one_kill_less_for_another_kind() -> None:
    """What a kill shows of one tool, and another tool shows without, is shown without."""

    def breaks(schedule: Schedule) -> bool:
        return (bool(schedule.kills) and "pay" in calls(schedule)) or "ghost" in calls(schedule)

    assert "v1 json marks [ghost] end" == shrunk("v1 json marks [pay] end > after-effect:1", breaks)


def test_one_kill_less_for_one_call_more() -> None:
    """What a kill shows of one call, and two calls show without any, is shown without any."""

    def breaks(schedule: Schedule) -> bool:
        return (bool(schedule.kills) and "pay" in calls(schedule)) or calls(schedule).count("pay") == 2

    assert "v1 json marks [pay pay] end" == shrunk("v1 json marks [pay] end > after-effect:1", breaks)


def test_a_store_that_names_its_crash_points_otherwise() -> None:
    """A kill in a write is taken to the same write of the plain store, under the name that its stages have there."""

    def breaks(schedule: Schedule) -> bool:
        return {"save.after-commit", "save.renamed"} & labels(schedule) != set() and len(schedule.kills) == 2

    line = "v1 sqlite marks [pay] end > before-model:1 > save.after-commit:1"
    assert "v1 json marks [pause] end > before-model:1 > save.renamed:1" == shrunk(line, breaks)


def test_a_write_that_a_simpler_tool_is_spared() -> None:
    """A kill in a write that only some tools need is taken to the same stage of one that all of them need."""

    def breaks(schedule: Schedule) -> bool:
        return bool(calls(schedule)) and {"mark.written", "save.written"} & labels(schedule) != set()

    line = "v1 json marks [pay] end > mark.written:1"
    assert "v1 json marks [read] end > save.written:1" == shrunk(line, breaks)


def test_a_loss_of_power_goes() -> None:
    """Where a killed process shows the same, no power is lost; where it does not, the least loss that shows it is."""

    def killed(schedule: Schedule) -> bool:
        return "after-effect" in labels(schedule)

    def lost(schedule: Schedule) -> bool:
        return any(kill.loss and kill.label == "after-effect" for kill in schedule.deaths)

    line = "v1 json marks [pay] end > after-effect:1!torn"
    assert "v1 json marks [read] end > after-effect:1" == shrunk(line, killed)
    assert "v1 json marks [read] end > after-effect:1!" == shrunk(line, lost)


def test_a_smaller_loss_at_another_place() -> None:
    """What is torn while its name gets through is gone once its name is synced: the smaller loss may come later."""

    def breaks(schedule: Schedule) -> bool:
        return {("save.written", "!torn"), ("save.renamed", "!")} & {
            (k.label, k.loss) for k in schedule.deaths
        } != set()

    line = "v1 json marks [pay] end > save.written:1!torn"
    assert "v1 json marks [pause] end > save.renamed:1!" == shrunk(line, breaks)


def test_a_kill_that_moves_keeps_its_loss() -> None:
    """An earlier crash point and the plain store are tried with what is lost there."""

    def breaks(schedule: Schedule) -> bool:
        return any(kill.loss == "!data" for kill in schedule.deaths)

    assert "v1 json marks end > before-model:1!data" == shrunk("v1 sqlite marks [pay] end > after-tool:1!data", breaks)


def test_what_happens_may_be_simpler_than_what_was_planned() -> None:
    """A candidate whose kill is never reached has happened without it, and that is what counts."""
    assert "v1 json marks end" == shrunk("v1 json marks [pay] end > after-effect:1", lambda schedule: True)


def test_it_ends_where_what_happens_is_larger() -> None:
    """A subject that does something larger than was planned cannot lead the search in a circle."""
    large = parse(BIG)

    assert large == shrink(large, lambda candidate: large, lambda schedule, place: [Kill("before-model")])


def test_nothing_smaller_fails() -> None:
    """What cannot be made simpler is returned as it is."""
    assert BIG == shrunk(BIG, lambda schedule: str(schedule) == BIG)


def test_candidates() -> None:
    """Every candidate can be written and read, so it can be executed and replayed."""
    candidates = set(simpler(parse(BIG))) | set(simpler(parse(f"{BIG}!torn")))

    assert candidates == {parse(str(candidate)) for candidate in candidates}


def test_order_tells_all_apart() -> None:
    """Two schedules that are equal in order differ at most in the labels of their kills."""
    candidates = {replace(each, kills=()) for each in simpler(parse(BIG))}
    candidates |= {replace(parse("v1 json marks end"), kills=(Kill("any", 1, loss),)) for loss in LOSSES}

    assert len(candidates) == len({order(each) for each in candidates})


def test_order_of_delays() -> None:
    """Of two delays the shorter is the simpler, and a kill of the host alone is simpler than any."""
    mixed = ["a:1+2@host", "a:1+10", "a:1@host", "a:1+2", "a:1"]
    schedules = sorted((parse(f"v1 json marks [pay] end > {kill}") for kill in mixed), key=order)

    assert ["a:1", "a:1@host", "a:1+2", "a:1+10", "a:1+2@host"] == [str(*each.kills) for each in schedules]
