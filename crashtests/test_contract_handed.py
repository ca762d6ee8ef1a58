"""The contract, of what is handed over: inputs to tools, requests to the model, a last word to the caller.

Each can be wrong while all that is on disk is right.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from crashtests.contract import violations
from crashtests.evidence import Evidence
from crashtests.kinds import LIMIT
from crashtests.stories import (
    ANSWER,
    ID,
    USER,
    Exact,
    Strict,
    answer,
    ask,
    at,
    begun,
    ending,
    event,
    evidence,
    life,
    ran,
    scene,
    turn,
    uninterrupted,
    whole,
)
from crashtests.subject import Subject
from crashtests.world import Event

LINE = "v1 json marks [pay] end"
SAID = [{"type": "tool_use", "id": ID, "name": "pay", "input": {}}]


def broken(found: Evidence, subject: Subject) -> dict[str, list[str]]:
    """Guarantee -> what it says."""
    says: dict[str, list[str]] = {}
    for violation in violations(found, found, subject):
        says.setdefault(violation.guarantee, []).append(violation.says)
    return says


def told(result: dict[str, Any]) -> Evidence:
    """A run that was not killed, whose caller was told this of it."""
    (whole_life,) = uninterrupted().lives
    events = [each | {"result": result} if each["event"] == "ending" else each for each in whole_life.events]
    return evidence(LINE, replace(whole_life, events=events))


def said(*calls: tuple[str, str], content: list[Any]) -> Event:
    return {**answer(*calls), "content": content}


def test_a_tool_gets_the_input_that_the_model_gave() -> None:
    """A call that is run with another input is another call, whatever it returns."""
    for given, says in (({}, None), ({"amount": 5}, f"{ID} was run with {{'amount': 5}}; the model's input is {{}}")):
        entered = event("begin", id=ID, tool="pay", input=given)
        events = [said((ID, "pay"), content=SAID), *uninterrupted().lives[0].events[2:]]
        events = [entered if each["event"] == "begin" else each for each in events]
        found = evidence(LINE, life(ask(1, USER), *events, after=whole()))

        assert ([says] if says else None) == broken(found, Exact()).get("TRUE")


def test_what_is_sent_is_what_was_said() -> None:
    """A request in which an answer was altered is wrong, also where what is saved is not."""
    altered = turn()
    altered["content"][0]["input"] = {"amount": 0}
    closing = said(content=[{"type": "text", "text": ANSWER}])
    for sent, holds in ((turn(), True), (altered, False)):
        rest = [at("save-a.renamed", "started.renamed"), *ran(), at("effect.renamed", "save-b.renamed")]
        asked = ask(2, USER, sent)
        events = [ask(1, USER), said((ID, "pay"), content=SAID), *rest, asked, closing, ending()]
        found = evidence(LINE, life(*events, after=whole()))

        says = [f"message 1 of request 2 is not what the model said: {str(altered)[:160]}"]
        assert (None if holds else says) == broken(found, Strict()).get("NOTHING-LOST")


def test_every_request_has_the_same_prefix() -> None:
    """Model, system and tools are those of the first request, in every life."""
    closing = said(content=[{"type": "text", "text": ANSWER}])
    for prefix, says in (
        ("one", None),
        ("two", ["request 2 has another prefix (model, system or tools) than the first"]),
    ):
        events = [{**ask(1, USER), "prefix": "one"}, said((ID, "pay"), content=SAID)]
        events += [{**ask(2, USER, turn()), "prefix": prefix}, closing]
        found = evidence(LINE, life(*events, ending(), after=whole()))

        assert says == broken(found, Strict()).get("NOTHING-LOST")
        assert "NOTHING-LOST" not in broken(found, Exact())


def test_the_caller_is_told_what_is_saved() -> None:
    """Counters, answer and unknowns as the caller gets them are those of the saved run."""
    right = {"turns": 1, "tokens_used": 215, "answer": ANSWER, "unknowns": []}
    wrong = {"turns": 2, "tokens_used": 1, "answer": None, "unknowns": [ID]}

    assert "HONEST-EXIT" not in broken(told(right), Exact())
    for name, value in wrong.items():
        says = [f"life 1 said that {name} is {value!r}; what is saved says {right[name]!r}"]
        assert says == broken(told({**right, name: value}), Exact())["HONEST-EXIT"]


def test_a_run_that_goes_on_is_not_stopped() -> None:
    """A turn that waits for its results was taken, so whatever stopped the run before is over."""
    says = ["life 1 left a run that has gone on, with calls pending, and says that it is 'stopped'"]
    for status, pending, holds in (("stopped", (ID,), False), ("stopped", (), True), ("running", (ID,), True)):
        end = replace(whole(), status=status, pending=pending)
        found = evidence(f"{LINE} > after-save-b:1", life(ask(1, USER), killed="after-save-b:1", after=end))

        assert (None if holds else says) == broken(found, Exact()).get("HONEST-EXIT")


def test_a_limit_lets_the_last_turn_end() -> None:
    """A run that has had all its turns has asked for all of them, and leaves none half done."""
    line = LINE.replace(" end", f" {LIMIT}")
    asked, stopped = [ask(1, USER), answer((ID, "pay"))], ending("stopped", "the limit is reached")
    half = evidence(line, life(*asked, stopped, after=replace(whole(), status="running", pending=(ID,))))
    none = evidence(line, life(stopped, after=replace(whole(), status="running")))

    assert [f"even uninterrupted the last turn does not end: {ID} are pending"] == broken(half, Exact())["PROGRESS"]
    assert ["even uninterrupted the model is asked 0 times; the script has more to say"] == broken(none, Exact())[
        "PROGRESS"
    ]


def test_what_a_run_is_started_over_is_kept() -> None:
    """An earlier run is set aside whole, if the subject can say so; one that cannot is not asked."""
    lost = "the run was started over an earlier one, and of that no whole run is set aside"
    for kept, says in ((0, [lost]), (1, None), (None, None)):
        found = evidence(
            LINE.replace(" [", " over ["), replace(uninterrupted().lives[0], after=replace(whole(), set_aside=kept))
        )

        assert says == broken(found, Exact()).get("NOTHING-LOST")


def test_what_was_not_taken_has_stopped_the_run() -> None:
    """A response that was cut short, and with which a life ends, is saved as what stopped the run."""
    cut = {**answer(), "stop_reason": "max_tokens", "content": []}
    says = ["life 1 took no response with stop_reason max_tokens, and the saved run is 'running'"]
    for status, holds in (("running", False), ("stopped", True)):
        events = [ask(1, USER), cut, ending("stopped", "it was cut short")]
        found = evidence(LINE, life(*events, after=scene(USER, status=status, turns=0)))

        assert (None if holds else says) == broken(found, Exact()).get("HONEST-EXIT")


def test_every_word_is_kept() -> None:
    """Uninterrupted, as many messages of the model are saved as the script has; a silent end is none."""
    empty = {"role": "assistant", "content": []}
    for line, kept, says in (
        (
            LINE,
            whole().messages[:3],
            ["even uninterrupted 1 messages of the model are saved; by the script it has said 2"],
        ),
        (LINE.replace("end", "silent"), [*whole().messages[:3], empty], None),
    ):
        answered = ANSWER if line == LINE else ""
        end = replace(whole(), messages=kept, answer=answered)
        found = evidence(line, replace(uninterrupted().lives[0], after=end))
        expected = says or ["even uninterrupted 2 messages of the model are saved; by the script it has said 1"]

        assert expected == broken(found, Exact())["SAME-END"]


def test_a_call_that_the_model_never_made() -> None:
    """A key that a harness thinks of itself is a violation, said in a sentence, of a call whose effect counts."""
    other = f"{ID}_retry"
    again = [ask(2, USER), event("begin", id=other, tool="pay", input={}), event("effect", id=other)]
    first = [ask(1, USER), said((ID, "pay"), content=SAID), *begun()]
    found = broken(evidence(f"{LINE} > after-effect:1", life(*first, killed="after-effect:1"), life(*again)), Exact())

    assert [f"the effect of pay (step 1-1) happened 2 times: life 1 as {ID}, life 2 as {other}"] == found[
        "AT-MOST-ONCE"
    ]
    assert f"{other} was run, and the model has made no such call" in found["TRUE"]
