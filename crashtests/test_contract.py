"""The contract: each guarantee is silent for evidence that holds it, and says in a sentence what broke it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from crashtests.contract import GUARANTEES, violations
from crashtests.evidence import Evidence
from crashtests.schedule import Hindrance
from crashtests.stories import (
    AGAIN,
    ANSWER,
    CLOSING,
    ID,
    USER,
    Exact,
    Loose,
    Strict,
    answer,
    ask,
    at,
    begun,
    ending,
    evidence,
    life,
    ran,
    result,
    scene,
    turn,
    uninterrupted,
    verified,
    whole,
)
from crashtests.subject import Scene, Subject
from crashtests.world import Event

LINE = "v1 json marks [pay] end > after-effect:1"
UNKNOWN = "State unknown: this call may have begun"


def point_a(tool: str = "pay") -> Scene:
    """What is saved before the one call is run."""
    return scene(USER, turn(tool=tool), pending=(ID,), turns=1)


POINT_A = point_a()

FIRST = [ask(1, USER), answer((ID, "pay")), at("save-a.renamed", "started.renamed"), *begun()]
KILLED = life(FIRST, killed="after-effect:1", after=POINT_A)
UNINTERRUPTED = uninterrupted()


def resumed(*events: Event | list[Event], end: Scene | None = None, status: str = "done") -> Evidence:
    """A run that was killed with the effect done and nothing recorded, and what its resume did then."""
    closing = [ask(2, USER, turn(), result("", ID)), answer(), ending(status)]
    return evidence(LINE, KILLED, life(*events, closing, after=end or whole(UNKNOWN, is_error=True)))


RECORDED = at("effect.renamed", "save-b.renamed")
HONEST = resumed(RECORDED)


def broken(
    found: Evidence, reference: Evidence = UNINTERRUPTED, subject: Subject | None = None
) -> dict[str, list[str]]:
    """Guarantee -> what it says."""
    says: dict[str, list[str]] = {}
    for violation in violations(found, reference, subject or Exact()):
        says.setdefault(violation.guarantee, []).append(violation.says)
    return says


def test_what_holds() -> None:
    """A run without a kill, and one whose unknown call is honestly said to be unknown, break nothing."""
    assert {} == broken(UNINTERRUPTED)
    assert {} == broken(HONEST)
    assert {} == broken(HONEST, subject=Loose())


def test_at_most_once_for_one_id() -> None:
    """An effect that happened again under the same id; a result that is no error tells nobody of it."""
    found = broken(resumed(ran(), RECORDED, end=whole("paid")), subject=Loose())

    assert {
        "AT-MOST-ONCE": [f"the effect of pay (step 1-1) happened 2 times: life 1 as {ID}, life 2 as {ID}"],
        "TOLD": [f"{ID} took effect 2 times, and neither model nor caller was ever told that it was more than once"],
    } == found
    told = {**ending(), "told": f"{ID} was run again"}
    assert "TOLD" not in broken(
        evidence(LINE, KILLED, life(ran(), [ask(2, USER, turn(), result("paid", ID)), answer(), told])), subject=Loose()
    )


def test_at_most_once_for_one_step() -> None:
    """An effect that happened again under the new id of a turn that was asked again."""
    again = [ask(2, USER), answer((AGAIN, "pay")), at("save-a.renamed"), *ran(AGAIN)]
    found = broken(
        evidence(
            LINE,
            replace(KILLED, after=None),
            life(again, ask(3, USER), answer(), ending(), after=whole("paid", AGAIN)),
        ),
        subject=Loose(),
    )

    says = f"the effect of pay (step 1-1) happened 2 times: life 1 as {ID}, life 2 as {AGAIN}"
    assert [says] == found["AT-MOST-ONCE"]
    assert [f"{ID} took effect in life 1, and neither model nor caller was ever told of it"] == found["TOLD"]


def test_at_most_once_is_for_side_effects() -> None:
    """An idempotent effect may happen again under its key."""
    first = [ask(1, USER), answer((ID, "put")), at("save-a.renamed", "started.renamed"), *begun(ID, "put")]
    rest = [ask(2, USER), answer(), ending()]
    found = evidence(
        LINE.replace("pay", "put"),
        life(first, killed="after-effect:1", after=point_a("put")),
        life(ran(ID, "put"), RECORDED, rest, after=whole("put", tool="put")),
    )

    assert {} == broken(found, uninterrupted(tool="put", text="put"))


def test_paired_request() -> None:
    """A request that the API refuses is quoted with its rule."""
    refused = ask(2, USER, turn(), broken=[("D1", "call has no result")])
    found = broken(
        evidence(LINE, KILLED, life(RECORDED, refused, answer(), ending(), after=whole(UNKNOWN, is_error=True)))
    )

    assert {"PAIRED": ["request 2 (life 2) is one the API refuses, rule D1: call has no result"]} == found


def test_paired_end() -> None:
    """A run that is done has no call without a result."""
    end = replace(whole(UNKNOWN, is_error=True), pending=(ID,))

    assert {"PAIRED": [f"the run is done, and these calls have no result: {ID}"]} == broken(resumed(RECORDED, end=end))


def test_true_of_a_result_that_never_was() -> None:
    """A result that no tool has returned and no verify has vouched for is a lie, whoever tells it."""
    lie = resumed(RECORDED, end=whole("paid"))

    says = f"the model was told that {ID} returned 'paid', and it never did"
    assert {"TRUE": [says]} == broken(lie, subject=Loose()) == broken(lie)


def test_paired_is_for_what_is_done() -> None:
    """A run that has not ended may have calls that wait for their results."""
    stopped = replace(UNINTERRUPTED.lives[0], after=scene(USER, turn(), pending=(ID,), turns=1))

    assert "PAIRED" not in broken(evidence("v1 json marks [pay] end", stopped))


def test_true_of_an_outcome_that_is_an_error() -> None:
    """A tool that raised is an error with its message; not a plain result, and not half of the message."""
    said = "ValueError: deny failed"
    for text, is_error, holds in ((said, True, True), (said, False, False), ("ValueError", True, False)):
        lives = uninterrupted(tool="deny").lives
        events = [{**each, "raised": True} if each["event"] == "end" else each for each in lives[0].events]
        one = replace(lives[0], events=events, after=whole(text, tool="deny", is_error=is_error))
        found = evidence("v1 json marks [deny] end", one)

        assert holds == ("TRUE" not in broken(found, found))


def test_true_of_a_result_that_was_not_recorded() -> None:
    """An outcome that reached the model without ever reaching the ledger would be lost by a kill in between."""
    events = [
        each for each in UNINTERRUPTED.lives[0].events if each.get("labels") != ["effect.renamed", "save-b.renamed"]
    ]
    found = evidence("v1 json marks [pay] end", replace(UNINTERRUPTED.lives[0], events=events))

    says = f"the model was told 'paid' of {ID}, and no outcome of that call was ever recorded"
    assert [says] == broken(found)["TRUE"]


def test_true_word_for_word() -> None:
    """A result that is right but for what was added, or that is called an error, is not what the tool returned."""
    for end in (whole("paid twice"), whole("paid", is_error=True)):
        found = evidence("v1 json marks [pay] end", replace(UNINTERRUPTED.lives[0], after=end))

        assert "TRUE" in broken(found)


def test_true_unknown_is_said_in_so_many_words() -> None:
    """An error of some other kind does not tell the model that the state is unknown."""
    assert "TRUE" in broken(resumed(RECORDED, end=whole("Something went wrong.", is_error=True)))


def test_verify_that_vouches_for_nothing() -> None:
    """A result after a verify that could not tell is as untrue as one without any."""
    told = resumed(verified("cannot_tell"), RECORDED, end=whole("paid"))

    assert [f"the model was told that {ID} returned 'paid', and it never did"] == broken(told, subject=Loose())["TRUE"]


def test_true_of_a_result_that_was_another() -> None:
    """A tool that returned one thing and is quoted with another."""
    end = whole("denied")
    found = evidence("v1 json marks [pay] end", replace(UNINTERRUPTED.lives[0], after=end))

    assert [f"the model was told that {ID} returned 'denied'; it returned 'paid'"] == broken(found, subject=Loose())[
        "TRUE"
    ]
    assert [
        f"{ID} was settled as 'real', so the model must be told 'paid'; it was told 'denied' (is_error=False)"
    ] == broken(found)["TRUE"]


def test_true_of_an_unknown_that_could_be_known() -> None:
    """Saying unknown of a call that is recorded, or that cannot have begun, is over-caution: a violation too."""
    recorded = life([*FIRST, *ran()[2:], at("effect.renamed")], killed="after-effect-write:1", after=POINT_A)
    rest = [at("save-b.renamed"), ask(2, USER), answer(), ending()]
    found = evidence(LINE, recorded, life(rest, after=whole(UNKNOWN, is_error=True)))

    assert [
        f"{ID} was settled as 'real', so the model must be told 'paid'; it was told {UNKNOWN!r} (is_error=True)"
    ] == broken(found)["TRUE"]

    never = life(ask(1, USER), answer((ID, "pay")), at("save-a.renamed"), killed="after-save-a:1", after=POINT_A)
    found = evidence(LINE, never, life(RECORDED, ask(2, USER), answer(), ending(), after=whole(UNKNOWN, is_error=True)))

    assert [
        f"resume (life 2) of call {ID}: 'not started: run' calls for begin, end; what happened was nothing"
    ] == broken(found)["TRUE"]


def test_true_of_an_unknown_that_is_no_error() -> None:
    """An unknown state is an error to the model: said as a plain result it passes for an outcome."""
    assert "TRUE" in broken(resumed(RECORDED, end=whole(UNKNOWN)))


def test_true_by_verify() -> None:
    """A result that verify has vouched for is true although no tool returned it."""
    mail = [ask(1, USER), answer((ID, "mail")), at("save-a.renamed", "started.renamed"), *begun(ID, "mail")]
    rest = [verified("done"), RECORDED, ask(2, USER), answer(), ending()]
    found = evidence(
        LINE.replace("pay", "mail"),
        life(mail, killed="after-effect:1", after=point_a("mail")),
        life(rest, after=whole("sent", tool="mail")),
    )

    assert {} == broken(found, uninterrupted(tool="mail", text="sent"))


def test_nothing_lost() -> None:
    """A message that was saved is there ever after, value for value."""
    altered = scene(USER, turn(), result("paid"), CLOSING, status="done", turns=1, answer=ANSWER)
    altered.messages[0] = {"role": "user", "content": "Do something else."}
    shorter = scene(USER, status="done", turns=1, answer=ANSWER)
    nothing = resumed(RECORDED)
    nothing = replace(nothing, lives=(nothing.lives[0], replace(nothing.lives[1], after=None)))

    assert ["message 0 was saved before life 2 and is gone or altered after it"] == broken(
        resumed(RECORDED, end=altered)
    )["NOTHING-LOST"]
    assert ["message 1 was saved before life 2 and is gone or altered after it"] == broken(
        resumed(RECORDED, end=shorter)
    )["NOTHING-LOST"]
    assert ["life 2 began with a saved run and left nothing that can be loaded"] == broken(nothing)["NOTHING-LOST"]


def test_nothing_lost_of_what_the_model_said() -> None:
    """A turn goes back as it came, value for value, but for blank texts, which the API does not take back."""
    thinking = {"type": "redacted_thinking", "data": "x"}
    blank = {"type": "text", "text": " \n"}
    said = [thinking, blank, *turn()["content"]]
    for kept, holds in ((said, True), ([thinking, *said[2:]], True), (said[1:], False), ([*said[2:], thinking], False)):
        end = whole()
        end.messages[1] = {"role": "assistant", "content": kept}
        answers = iter([said, CLOSING["content"]])
        events = [
            {**each, "content": next(answers)}
            if each["event"] == "answer"
            else {**each, "messages": end.messages[: len(each["messages"])]}
            if each["event"] == "ask"
            else each
            for each in UNINTERRUPTED.lives[0].events
        ]
        found = evidence("v1 json marks [pay] end", replace(UNINTERRUPTED.lives[0], events=events, after=end))
        says = [] if holds else [f"message 1 is not what the model said: {str(end.messages[1])[:160]}"]

        assert says == broken(found, found, Strict()).get("NOTHING-LOST", [])


def test_progress_to_the_end() -> None:
    """The last resume ends as the uninterrupted run does; what it says instead is quoted."""
    end = scene(USER, turn(), result(UNKNOWN, is_error=True), turns=1)
    stuck = evidence(LINE, KILLED, life(RECORDED, ask(2, USER), ending("stopped", "the API is down"), after=end))

    assert {"PROGRESS": ["the last life ended 'stopped' (the API is down), uninterrupted it is 'done'"]} == broken(
        stuck
    )


def test_progress_without_redoing() -> None:
    """One more request and one more entry into a repeatable tool a crash, and no more."""
    more = resumed(RECORDED, ask(2, USER), answer(), ask(3, USER), answer())
    reads = [ask(1, USER), answer((ID, "read")), at("save-a.renamed")]
    read = {"id": ID, "tool": "read"}
    entered: list[Event] = [
        {"life": 1, "pid": 1, "event": "begin", **read},
        {"life": 1, "pid": 1, "event": "end", "id": ID, "raised": False},
    ]
    twice = evidence(
        "v1 json marks [read] end > after-tool:1",
        life(reads, entered, killed="after-tool:1", after=point_a("read")),
        life(entered, entered, RECORDED, ask(2, USER), answer(), ending(), after=whole("the notes", tool="read")),
    )
    found = broken(twice, uninterrupted(tool="read", text="the notes"), Loose())

    assert {"PROGRESS": ["the model was asked 4 times; uninterrupted it is 2, and there were 1 crashes"]} == broken(
        more
    )
    assert ["PROGRESS"] == list(found)
    assert "3" in found["PROGRESS"][0]


def test_progress_when_the_host_died_alone() -> None:
    """What lived on may have to ask once more, since the suite's end of the API died with the host; and no more."""
    first = life(ask(1, USER), answer((ID, "pay")), ran(), ask(2, USER), answer(), killed="after-tool:1@host")
    again, once_more = [ask(3, USER), answer()], [ask(4, USER), answer()]

    for extra in ([], once_more):
        found = broken(
            evidence("v1 json marks [pay] end", first, life(again, once_more, extra, ending(), after=whole())),
            uninterrupted(),
            Loose(),
        )
        assert ("PROGRESS" in found) == bool(extra)


def test_progress_of_the_uninterrupted_run() -> None:
    """A harness that never gets anywhere does not pass by never getting anywhere every time."""
    idle = evidence("v1 json marks [pay] end", life(ending("stopped", "not today"), after=scene(USER)))

    assert {
        "PROGRESS": [
            "even uninterrupted the run ends 'stopped', not 'done'",
            "even uninterrupted the model is asked 0 times; the script has more to say",
        ]
    } == broken(idle, idle)


def test_progress_is_not_asked_of_a_refusal() -> None:
    """A script that ends with the model's refusal ends the run as the harness sees fit."""
    refused = [ask(1, USER), answer((ID, "pay")), ask(2, USER), answer(), ending("stopped", "the model refused")]
    found = evidence("v1 json marks [pay] refusal", life(refused, after=scene(USER)))

    assert "PROGRESS" not in broken(found, found)


def test_progress_stops_at_the_last_word() -> None:
    """A run whose model has refused is not asked again by a harness that promises the table; another may ask."""
    refused = [ask(1, USER), answer((ID, "pay")), ask(2, USER), answer(), ending("stopped", "the model refused")]
    again = [ask(3, USER), answer(), ending("stopped", "the model refused")]
    found = evidence("v1 json marks [pay] refusal", life(refused, after=scene(USER)), life(again, after=scene(USER)))

    says = "even uninterrupted the model is asked 3 times, after it has said its last word"
    assert [says] == broken(found, found)["PROGRESS"]
    assert "PROGRESS" not in broken(found, found, Loose())


def test_progress_to_the_end_of_the_script() -> None:
    """A run that ends before the model has said its last word is not done."""
    short = evidence("v1 json marks [pay] end", life(ask(1, USER), answer((ID, "pay")), ending(), after=whole()))

    says = "even uninterrupted the model is asked 1 times; the script has more to say"
    assert [says] == broken(short, short)["PROGRESS"]


def test_same_end_of_what_is_counted() -> None:
    """Turns, tokens and answer are those of the uninterrupted run."""
    others: dict[str, Any] = {"turns": 2, "tokens_used": 322, "answer": "All"}
    for name, value in others.items():
        end = replace(whole(UNKNOWN, is_error=True), **{name: value})
        was = getattr(whole(), name)

        assert {"SAME-END": [f"at the end {name} is {value!r}, uninterrupted it is {was!r}"]} == broken(
            resumed(RECORDED, end=end)
        )


def test_same_end_as_the_script_has_it() -> None:
    """A count that is wrong without any kill is as wrong with one, and equal to it; the script knows better."""
    others: dict[str, Any] = {"turns": 2, "tokens_used": 107, "answer": None}
    for name, value in others.items():
        end = replace(whole(), **{name: value})
        found = evidence("v1 json marks [pay] end", replace(UNINTERRUPTED.lives[0], after=end))
        was = getattr(whole(), name)

        assert [f"even uninterrupted {name} is {value!r} at the end; by the script it is {was!r}"] == broken(
            found, found
        )["SAME-END"]
        assert {} == broken(found, found, Loose())


def test_same_end_of_what_was_said() -> None:
    """The conversation is that of the uninterrupted run: as long, and in each message the same."""
    longer = replace(whole(UNKNOWN, is_error=True), messages=[*whole(UNKNOWN, is_error=True).messages, USER])
    other = whole(UNKNOWN, is_error=True)
    other.messages[3] = {"role": "assistant", "content": [{"type": "text", "text": "All gone."}]}

    assert {"SAME-END": ["the conversation ends with 5 messages, uninterrupted with 4"]} == broken(
        resumed(RECORDED, end=longer)
    )
    (says,) = broken(resumed(RECORDED, end=other))["SAME-END"]
    assert says.startswith("message 3 at the end is ")
    assert "All gone." in says
    assert "All done." in says


def test_same_end_of_errors_that_are_known() -> None:
    """Only an unknown state may stand in the place of the uninterrupted run's result; another error may not."""
    for end in (whole("Something went wrong.", is_error=True), whole(UNKNOWN)):
        assert "SAME-END" in broken(resumed(RECORDED, end=end))


def test_same_end_after_renaming() -> None:
    """Ids that a turn got when it was asked again, and signatures, make no difference."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "one"}

    def end(tool_use_id: str, signature: str) -> Scene:
        closed = whole("paid", tool_use_id)
        said = turn(tool_use_id)
        said["content"].insert(0, {**thinking, "signature": signature})
        closed.messages[1] = said
        return closed

    lost = life(ask(1, USER), answer((ID, "pay")), killed="after-model:1", after=scene(USER))
    again = [ask(2, USER), answer((AGAIN, "pay")), at("save-a.renamed", "started.renamed"), *ran(AGAIN), RECORDED]
    found = evidence(LINE, lost, life(again, ask(3, USER), answer(), ending(), after=end(AGAIN, "two")))
    reference = evidence("v1 json marks [pay] end", replace(UNINTERRUPTED.lives[0], after=end(ID, "one")))

    assert {} == broken(found, reference)


def test_told_the_model_or_the_caller() -> None:
    """An effect of which nobody hears is a violation; a word to the caller is enough."""
    again = [ask(2, USER), answer((AGAIN, "pay")), at("save-a.renamed"), *ran(AGAIN), ask(3, USER), answer()]
    for told, silent in (("", False), (f"the state of {ID} is unknown", True)):
        found = evidence(
            LINE,
            replace(KILLED, after=None),
            life(again, ending(told=told), after=whole("paid", AGAIN)),
        )

        assert silent == ("TOLD" not in broken(found, subject=Loose()))


def test_refusal_of_its_own_state() -> None:
    """What a life has left is never refused by the next, nor taken for nothing."""
    refused = evidence(LINE, KILLED, life(ending("refused", "it is damaged"), after=POINT_A))
    missing = evidence(LINE, KILLED, life(ending("missing", "nothing there"), after=POINT_A))

    assert ["life 2 refused what the life before it had left: it is damaged"] == broken(refused)["REFUSAL"]
    assert ["life 2 found nothing to resume although a run was saved: nothing there"] == broken(missing)["REFUSAL"]


def test_refusal_changes_nothing() -> None:
    """A life that refuses leaves every byte as it was."""
    early = life(ask(1, USER), killed="after-model:1")
    touched = evidence(LINE, early, life(ending("missing"), changed=True), life(ending(), changed=True))

    assert ["life 2 refused to resume and changed what is on disk"] == broken(touched)["REFUSAL"]


HINDRANCE = Hindrance("damaged")
NAMED = "./state/checkpoint.json: is damaged"


def hindered(*events: Event, changed: bool = False) -> Evidence:
    """A run that was killed, resumed while it was damaged, and then resumed as it was."""
    rest = HONEST.lives[1]
    return evidence(LINE, KILLED, life(*events, planned=HINDRANCE, changed=changed, after=POINT_A), rest)


def test_hindered() -> None:
    """A run that is not as it was left is refused, by name, with nothing asked, run or changed."""
    what = "life 2 was to resume a run that is damaged, and"
    refused = ending("refused", NAMED)

    assert {} == broken(hindered(refused))
    assert {"REFUSAL": [f"{what} did not refuse: it ended 'done' ()"]} == broken(hindered(ending("done")))
    assert {"REFUSAL": [f"{what} changed what is on disk"]} == broken(hindered(refused, changed=True))
    assert {"REFUSAL": [f"{what} asked the model or ran a tool"]} == broken(hindered(begun()[0], refused))
    assert {"REFUSAL": [f"{what} refused without naming the file: 'no'"]} == broken(hindered(ending("refused", "no")))


def test_a_run_that_should_have_been_refused() -> None:
    """What it did besides is not held against it: that it was there at all is what is wrong."""
    found = hindered(*ran(), ending("done"))

    assert ["REFUSAL"] == list(broken(found))


def test_honest_exit() -> None:
    """A life says done when the saved run is done, and only then; it says why it stopped, and does say something."""
    early = evidence(
        LINE,
        KILLED,
        life(
            RECORDED, ask(2, USER), answer(), ending(), after=replace(whole(UNKNOWN, is_error=True), status="running")
        ),
    )
    late = resumed(RECORDED, status="stopped")
    raised = evidence(LINE, KILLED, life(RECORDED, ending("raised", "KeyError: 'id'"), after=POINT_A))

    assert ["life 2 said 'done', and the saved run is 'running'"] == broken(early)["HONEST-EXIT"]
    assert [
        "life 2 said 'stopped', and the saved run is 'done'",
        "life 2 stopped and did not say why",
    ] == broken(late)["HONEST-EXIT"]
    assert ["life 2 did not say how it ended: KeyError: 'id'"] == broken(raised)["HONEST-EXIT"]


def test_guarantees() -> None:
    """The guarantees stand in the order of the README's table, the gravest first."""
    names = "AT-MOST-ONCE PAIRED TRUE NOTHING-LOST PROGRESS SAME-END TOLD REFUSAL HONEST-EXIT"

    assert names.split() == list(GUARANTEES)
