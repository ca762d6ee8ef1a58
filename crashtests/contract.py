"""The contract: each guarantee a function from evidence to what went wrong, in sentences for a tired person.

A guarantee gets a `Case`: the evidence of a schedule, that of the uninterrupted run of the same script, and what the
subject promises. It yields a sentence for each violation, and nothing if it holds. The words and the ids are those of
the table in the README, which a test holds against `GUARANTEES`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from crashtests.evidence import Evidence, LifeEvidence
from crashtests.expect import UNKNOWN_SAYS, Foretold, foretell, shown_results
from crashtests.kinds import ENDS, FIRST_ASKS, TOOL_KINDS
from crashtests.schedule import PAUSED
from crashtests.scripted import ANSWER, usage
from crashtests.subject import Scene, Subject
from crashtests.world import Event, step_of


@dataclass(frozen=True, slots=True)
class Violation:
    """A guarantee that did not hold, and how one can tell."""

    guarantee: str
    says: str

    def __str__(self) -> str:
        return f"{self.guarantee}: {self.says}"


@dataclass(frozen=True, slots=True)
class Case:
    """What the guarantees look at."""

    evidence: Evidence
    uninterrupted: Callable[[], Evidence]
    subject: Subject
    foretold: Foretold | None
    tools: dict[str, str]
    """Tool kind of every call that the model made, or that was entered all the same."""

    @property
    def reference(self) -> Evidence:
        """The uninterrupted run of the same script."""
        return self.uninterrupted()

    @property
    def conversation(self) -> list[dict[str, Any]]:
        """The longest conversation known at the end: what is durable, else the last request."""
        if self.evidence.end is not None:
            return self.evidence.end.messages
        requests: list[list[dict[str, Any]]] = [e["messages"] for e in self.evidence.events if e["event"] == "ask"]
        return requests[-1] if requests else []


def violations(
    evidence: Evidence, reference: Evidence, subject: Subject, foretold: Foretold | None = None
) -> list[Violation]:
    """Every guarantee that `evidence` breaks. `reference`: the uninterrupted run of the same script.

    `foretold`: what was foretold of it, if that is known already.
    """
    case = _case(evidence, lambda: reference, subject, foretold)
    return [Violation(name, says) for name in GUARANTEES for says in _broken(case, name)]


def breaks(guarantee: str, evidence: Evidence, uninterrupted: Callable[[], Evidence], subject: Subject) -> bool:
    """Whether `evidence` breaks one guarantee. `uninterrupted` is only called where there is something to compare."""
    return any(_broken(_case(evidence, uninterrupted, subject), guarantee))


def _case(
    evidence: Evidence,
    uninterrupted: Callable[[], Evidence],
    subject: Subject,
    foretold: Foretold | None = None,
) -> Case:
    if foretold is None and subject.settles_exactly:
        foretold = foretell(evidence)
    return Case(evidence, uninterrupted, subject, foretold, _tools(evidence.events))


def _tools(events: Iterable[Event]) -> dict[str, str]:
    tools: dict[str, str] = {}
    for event in events:
        if event["event"] == "begin":
            tools.setdefault(event["id"], event["tool"])
        elif event["event"] == "answer":
            tools.update((call, tool) for call, tool in event["calls"])
    return tools


def _broken(case: Case, guarantee: str) -> Iterator[str]:
    """What broke it. A run that went on although it should have refused breaks that, and was not brought to its end."""
    if guarantee in case.subject.unjudged:
        return iter(())
    ended = not any(life.hindered_by and life.status != "refused" for life in case.evidence.lives)
    return GUARANTEES[guarantee](case) if ended or guarantee == "REFUSAL" else iter(())


def at_most_once(case: Case) -> Iterator[str]:
    """The effect of a SIDE_EFFECT tool never happens twice, neither for one id nor for one step."""
    yield from happened_twice(list(case.evidence.events))


def happened_twice(events: list[Event]) -> Iterator[str]:
    """Steps of a SIDE_EFFECT tool with more than one effect in a world log."""
    tools = _tools(events)
    effects = [e for e in events if e["event"] == "effect"]
    once = [e for e in effects if TOOL_KINDS[tools[e["id"]]].effect == "side_effect"]
    for step, times in Counter(step_of(e["id"]) for e in once).items():
        if times > 1:
            here = [e for e in once if step_of(e["id"]) == step]
            where = ", ".join(f"life {e['life']} as {e['id']}" for e in here)
            yield f"the effect of {tools[here[0]['id']]} (step {step}) happened {times} times: {where}"


def paired(case: Case) -> Iterator[str]:
    """Every request is one that the Messages API accepts, and nothing is left unanswered at the end."""
    for event in case.evidence.events:
        if event["event"] == "ask":
            for rule, message in event["broken"]:
                yield f"request {event['ask']} (life {event['life']}) is one the API refuses, rule {rule}: {message}"
    end = case.evidence.end
    if end is not None and end.status == "done" and end.pending:
        yield f"the run is done, and these calls have no result: {', '.join(end.pending)}"


def true(case: Case) -> Iterator[str]:
    """What the model is told of a call is what happened."""
    if case.foretold is not None:
        yield from case.foretold.problems
    ends = {e["id"]: e["raised"] for e in case.evidence.events if e["event"] == "end"}
    done = {e["id"] for e in case.evidence.events if e["event"] == "verify" and e["verdict"] == "done"}
    yield from _run_as_asked(case)
    for call, text, is_error in shown_results(case.conversation):
        if not is_error and ends.get(call) is not False and call not in done:
            yield f"the model was told that {call} returned {text[:60]!r}, and it never did"
        elif case.foretold is not None:
            yield from _as_foretold(case, call, text, is_error)
        elif not is_error and isinstance(out := TOOL_KINDS[case.tools[call]].output, str) and out not in text:
            yield f"the model was told that {call} returned {text[:60]!r}; it returned {out[:60]!r}"


def _run_as_asked(case: Case) -> Iterator[str]:
    """Calls whose tool was handed another input than the model gave."""
    said = [e["content"] for e in case.evidence.events if e["event"] == "answer" and "content" in e]
    asked = {block["id"]: block["input"] for content in said for block in content if block["type"] == "tool_use"}
    for event in case.evidence.events:
        if event["event"] != "begin" or "input" not in event:
            continue
        if event["id"] not in asked:
            yield f"{event['id']} was run, and the model has made no such call"
        elif event["input"] != asked[event["id"]]:
            yield f"{event['id']} was run with {event['input']}; the model's input is {asked[event['id']]}"


def _as_foretold(case: Case, call: str, text: str, is_error: bool) -> Iterator[str]:
    if case.foretold is None or call not in case.foretold.results:
        yield f"the model was told {text[:60]!r} of {call}, and no outcome of that call was ever recorded"
        return
    settled, shown = case.foretold.results[call]
    raises = settled == "real" and TOOL_KINDS[case.tools[call]].raises is not None
    if is_error != (settled != "real" or raises) or shown not in text or (settled == "real" and text != shown):
        yield (
            f"{call} was settled as '{settled}', so the model must be told {shown[:60]!r}; "
            f"it was told {text[:60]!r} (is_error={is_error})"
        )


def nothing_lost(case: Case) -> Iterator[str]:
    """What a life saved is a prefix of what the next one saves, value for value."""
    for life in case.evidence.lives:
        if life.before is None:
            continue
        if life.after is None:
            yield f"life {life.number} began with a saved run and left nothing that can be loaded"
            continue
        saved = life.before.messages
        if life.after.messages[: len(saved)] != saved:
            place = next(i for i, m in enumerate(saved) if life.after.messages[i : i + 1] != [m])
            yield f"message {place} was saved before life {life.number} and is gone or altered after it"
    end = case.evidence.end
    if case.evidence.schedule.over and end is not None and end.set_aside == 0:
        yield "the run was started over an earlier one, and of that no whole run is set aside"
    if case.subject.strict:
        yield from _not_as_said(case)


def _not_as_said(case: Case) -> Iterator[str]:
    """Answers that are not saved or not sent as they came, and requests whose prefix is not that of the first."""
    asks = [event for event in case.evidence.events if event["event"] == "ask"]
    said = [_unblank(event["content"]) for event in case.evidence.events if "content" in event]
    saved = case.conversation
    for where, messages in [("", saved), *((f" of request {e['ask']}", e["messages"]) for e in asks)]:
        for place, message in enumerate(messages):
            known = where and message in saved[place : place + 1]
            if message["role"] == "assistant" and not known and _unblank(message["content"]) not in said:
                yield f"message {place}{where} is not what the model said: {str(message)[:160]}"
    for event in asks:
        if event.get("prefix") != asks[0].get("prefix"):
            yield f"request {event['ask']} has another prefix (model, system or tools) than the first"


def _unblank(content: Any) -> Any:
    """Content without empty or blank text blocks, which the API emits and does not take back."""
    return (
        [b for b in content if b.get("type") != "text" or b["text"].strip()] if isinstance(content, list) else content
    )


def progress(case: Case) -> Iterator[str]:
    """The last resume ends the task, and completed work is not redone."""
    evidence, reference = case.evidence, case.reference
    script = reference.schedule
    limited = script.turns_max is not None
    right = "stopped" if limited or script.end == "refusal" else "done"
    # How a harness takes a refusal is its own affair, unless it promises what ours does.
    if (script.end != "refusal" or case.foretold is not None) and reference.last.status != right:
        yield f"even uninterrupted the run ends '{reference.last.status}', not '{right}'"
    last = max((place for place, turn in enumerate(script.turns, start=1) if turn != PAUSED), default=0)
    if reference.count("ask") < (last if limited else len(script.turns) + 1):
        yield f"even uninterrupted the model is asked {reference.count('ask')} times; the script has more to say"
    if limited and reference.end is not None and reference.end.pending:
        yield f"even uninterrupted the last turn does not end: {', '.join(reference.end.pending)} are pending"
    cut = sum(word in FIRST_ASKS for turn in script.turns for word in turn.beside)
    if case.foretold is not None and reference.count("ask") > len(script.turns) + (not limited) + cut:
        yield f"even uninterrupted the model is asked {reference.count('ask')} times, after it has said its last word"
    if evidence.last.status != reference.last.status:
        reason = (evidence.last.ending or {}).get("reason", "")
        yield f"the last life ended '{evidence.last.status}' ({reason}), uninterrupted it is '{reference.last.status}'"
        return
    crashes = evidence.crashes
    # With a host that was killed alone the suite's end of the API died too, so what lived on may have to ask again.
    cut_off = sum(kill.alone for life in evidence.lives if (kill := life.killed_at))
    if evidence.count("ask") > reference.count("ask") + crashes + cut_off:
        yield (
            f"the model was asked {evidence.count('ask')} times; uninterrupted it is {reference.count('ask')}, "
            f"and there were {crashes} crashes"
        )
    entries, expected = (_repeatable_entries(e, case.tools) for e in (evidence, reference))
    if entries > expected + crashes:
        yield f"repeatable tools were entered {entries} times; uninterrupted it is {expected}, with {crashes} crashes"


def _repeatable_entries(evidence: Evidence, tools: dict[str, str]) -> int:
    begins = (e["tool"] for e in evidence.events if e["event"] == "begin")
    return sum(TOOL_KINDS[tool].effect != "side_effect" for tool in begins)


def same_end(case: Case) -> Iterator[str]:
    """The end equals the uninterrupted run's, but for ids, signatures and honest unknowns."""
    end, expected = case.evidence.end, case.reference.end
    if case.evidence.last.status != case.reference.last.status:
        return  # PROGRESS has said so
    if end is not None and expected is not None:
        for name in ("status", "turns", "tokens_used", "answer"):
            if getattr(end, name) != getattr(expected, name):
                yield f"at the end {name} is {getattr(end, name)!r}, uninterrupted it is {getattr(expected, name)!r}"
    yield from _not_as_scripted(case)
    got, want = _plain(case.conversation, _unknown(case)), _plain(_conversation(expected, case.reference))
    if len(got) != len(want):
        yield f"the conversation ends with {len(got)} messages, uninterrupted with {len(want)}"
        return
    for place, (message, other) in enumerate(zip(got, want, strict=True)):
        if message != other:
            yield f"message {place} at the end is {str(message)[:160]}, uninterrupted it is {str(other)[:160]}"


def _not_as_scripted(case: Case) -> Iterator[str]:
    """What an uninterrupted run must count, told by the script: a mistake that is made every time shows in no other."""
    end, script = case.reference.end, case.reference.schedule
    if case.foretold is None or end is None:
        return
    for event in case.evidence.events:
        if event["event"] == "answer" and event["stop_reason"] not in _TAKEN:
            for place, message in enumerate(case.conversation):
                if message["content"] == event["content"]:
                    yield f"message {place} is a response with stop_reason {event['stop_reason']}: not to be kept"
    if end.status != "done":
        return
    # What was paused goes on with the server's result, also where the end is silent.
    speaks = ENDS[script.end][1] or script.turns[-1:] == (PAUSED,)
    answers, said = sum(m["role"] == "assistant" for m in end.messages), len(script.turns) + speaks
    if answers != said:
        yield f"even uninterrupted {answers} messages of the model are saved; by the script it has said {said}"
    tokens = sum(sum(filter(None, usage(position).values())) for position in range(len(script.turns) + 1))
    expected = {
        "turns": sum(turn != PAUSED for turn in script.turns),
        "tokens_used": tokens,
        "answer": ANSWER if ENDS[script.end][1] else "",
    }
    for name, value in expected.items():
        if getattr(end, name) != value:
            yield f"even uninterrupted {name} is {getattr(end, name)!r} at the end; by the script it is {value!r}"


# Stop reasons of responses that belong into the conversation; the others were cut short or refused.
_TAKEN = ("tool_use", "end_turn", "stop_sequence", "pause_turn")


def _conversation(end: Scene | None, evidence: Evidence) -> list[dict[str, Any]]:
    if end is not None:
        return end.messages
    requests = [e["messages"] for e in evidence.events if e["event"] == "ask"]
    return requests[-1] if requests else []


class _Anything:
    """Equal to every result: stands for one whose state is honestly unknown (TRUE judges the honesty)."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]  # never a key

    def __repr__(self) -> str:
        return "(unknown)"


def _unknown(case: Case) -> set[str]:
    """Calls whose state a harness with words of its own may say is unknown: those pending in a life that died.

    Pending is what the model has named, and has not been told the end of.
    """
    if case.foretold is not None:
        return set()  # its words are known
    pending: set[str] = set()
    unknown: set[str] = set()
    for life in case.evidence.lives:
        for event in life.of("answer", "ask"):
            if event["event"] == "answer":
                pending |= {call for call, _ in event["calls"]}
            else:
                pending -= {call for call, _, _ in shown_results(event["messages"])}
        unknown |= pending if life.killed_at else set()
    return unknown


def _plain(messages: list[dict[str, Any]], unknown: Collection[str] = ()) -> list[Any]:
    return [
        (m["role"], m["content"] if isinstance(m["content"], str) else [_block(b, unknown) for b in m["content"]])
        for m in messages
    ]


def _block(block: dict[str, Any], unknown: Collection[str]) -> Any:
    """A block with ids renamed to steps, signatures and server ids left out, and unknowns equal to anything."""
    if block.get("type") == "tool_result":
        content = block.get("content")
        says_so = isinstance(content, str) and content.startswith(UNKNOWN_SAYS)
        if block.get("is_error") and (says_so or block["tool_use_id"] in unknown):
            content = _Anything()
            return {"tool_result": step_of(block["tool_use_id"]), "content": content, "is_error": _Anything()}
        return {
            "tool_result": step_of(block["tool_use_id"]),
            "content": content,
            "is_error": block.get("is_error", False),
        }
    plain = {k: v for k, v in block.items() if k not in ("signature", "data", "tool_use_id")}
    if "id" in plain:
        plain["id"] = step_of(plain["id"]) if block["type"] == "tool_use" else ""
    return plain


def told(case: Case) -> Iterator[str]:
    """Where a call's effect happened or may have, the model or at least the caller has been told something of it."""
    answered = {call for call, _, _ in shown_results(case.conversation)}
    to_caller = " ".join(str(e.get("told", "")) for e in case.evidence.events if e["event"] == "ending")
    for event in case.evidence.events:
        if event["event"] == "effect" and event["id"] not in answered and event["id"] not in to_caller:
            yield f"{event['id']} took effect in life {event['life']}, and neither model nor caller was ever told of it"
    # One result that is no error tells of one effect: of the others nobody has heard.
    errors = {call for call, _, is_error in shown_results(case.conversation) if is_error}
    times = Counter(event["id"] for event in case.evidence.events if event["event"] == "effect")
    for call, n in times.items():
        once = TOOL_KINDS[case.tools[call]].effect == "side_effect"
        if n > 1 and once and call in answered - errors and call not in to_caller:
            yield f"{call} took effect {n} times, and neither model nor caller was ever told that it was more than once"


def refusal(case: Case) -> Iterator[str]:
    """What is not as it was left is refused, what a life of its own left is not, and a refusal changes nothing."""
    for life in case.evidence.lives:
        reason = (life.ending or {}).get("reason", "")
        if life.hindered_by:
            yield from _hindered(life, reason)
            continue
        if life.status == "refused":
            yield f"life {life.number} refused what the life before it had left: {reason}"
        if life.status == "missing" and life.before is not None:
            yield f"life {life.number} found nothing to resume although a run was saved: {reason}"
        # To open a database that holds nothing may well touch it: only the exact promise not to.
        if (life.status == "refused" or (life.status == "missing" and case.foretold is not None)) and life.changed:
            yield f"life {life.number} refused to resume and changed what is on disk"


def _hindered(life: LifeEvidence, reason: str) -> Iterator[str]:
    what = f"life {life.number} was to resume a run that is {_HINDERED[str(life.hindered_by)]}"
    if life.status != "refused":
        yield f"{what}, and did not refuse: it ended '{life.status}' ({reason})"
    if life.changed:
        yield f"{what}, and changed what is on disk"
    if any(life.of("ask", "begin")):
        yield f"{what}, and asked the model or ran a tool"
    if life.status == "refused" and "./state" not in reason:
        yield f"{what}, and refused without naming the file: {reason!r}"


_HINDERED = {
    "damaged": "damaged",
    "incomplete": "incomplete",
    "foreign": "in part another one's",
    "version": "of another version",
    "held": "held by a live process",
}


def honest_exit(case: Case) -> Iterator[str]:
    """What the harness says of its end is what is durable."""
    for life in case.evidence.lives:
        if life.hindered_by:
            continue  # REFUSAL looks at it
        if life.status == "raised" and life.ending is not None:
            yield f"life {life.number} did not say how it ended: {life.ending['reason']}"
        if life.after is not None and life.after.status == "stopped" and life.after.pending:
            yield f"life {life.number} left a run that has gone on, with calls pending, and says that it is 'stopped'"
        if life.after is None or life.after.status is None or life.ending is None:
            continue
        if (life.status == "done") != (life.after.status == "done"):
            yield f"life {life.number} said '{life.status}', and the saved run is '{life.after.status}'"
        said = [event["stop_reason"] for event in life.of("answer")][-1:]
        if case.foretold is not None and said and said[0] not in _TAKEN and life.after.status == "running":
            yield f"life {life.number} took no response with stop_reason {said[0]}, and the saved run is 'running'"
        if life.status == "stopped" and not life.ending["reason"]:
            yield f"life {life.number} stopped and did not say why"
        for name, value in life.ending.get("result", {}).items():
            saved = _unknowns(life.after) if name == "unknowns" else getattr(life.after, name)
            if value != saved:
                yield f"life {life.number} said that {name} is {value!r}; what is saved says {saved!r}"


def _unknowns(scene: Scene) -> list[str]:
    """Calls that the model was told are unknown."""
    return [
        call for call, text, is_error in shown_results(scene.messages) if is_error and text.startswith(UNKNOWN_SAYS)
    ]


GUARANTEES: dict[str, Callable[[Case], Iterator[str]]] = {
    "AT-MOST-ONCE": at_most_once,
    "PAIRED": paired,
    "TRUE": true,
    "NOTHING-LOST": nothing_lost,
    "PROGRESS": progress,
    "SAME-END": same_end,
    "TOLD": told,
    "REFUSAL": refusal,
    "HONEST-EXIT": honest_exit,
}
