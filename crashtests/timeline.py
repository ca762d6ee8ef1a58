"""The timeline of a schedule: life by life, what ran, where it died, what was on disk, what the resume did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from crashtests.contract import Violation
from crashtests.evidence import Evidence, LifeEvidence
from crashtests.expect import shown_results
from crashtests.schedule import LOSSES, Kill
from crashtests.subject import Scene
from crashtests.world import Event


def render(evidence: Evidence, violations: Sequence[Violation]) -> str:
    """The whole report of one schedule, with what it breaks."""
    lines = [f"schedule  {evidence.schedule}"]
    for life in evidence.lives:
        lines += life_lines(life)
    lines += list(_broken(violations)) or ["          every guarantee holds"]
    return "\n".join(lines)


def _broken(violations: Sequence[Violation]) -> Iterator[str]:
    """The first sentence of each guarantee, and how many more there are."""
    for guarantee in dict.fromkeys(violation.guarantee for violation in violations):
        says = [violation.says for violation in violations if violation.guarantee == guarantee]
        yield f"BROKEN    {guarantee}: {says[0]}{f' (and {len(says) - 1} more)' if says[1:] else ''}"


def replay_command(evidence: Evidence, subject: str | None = None) -> str:
    """The command that runs exactly this schedule again."""
    return f"pytest crashtests {f'--subject {subject} ' if subject else ''}--replay '{evidence.schedule}'"


def life_lines(life: LifeEvidence) -> Iterator[str]:
    """What happened in one life, a line for each thing that did."""
    hindered = f", hindered: {life.hindered_by}" if life.hindered_by else ""
    yield f"life {life.number}    {'resumes' if life.resume else 'starts'}{hindered}"
    # What another process has logged in its name came after its death.
    own = [event for event in life.events if event["pid"] == life.events[0]["pid"]]
    yield from _events(own)
    if life.killed_at:
        yield from _death(life, life.killed_at)
        yield from _events(event for event in life.events if event not in own)
    yield f"  on disk {_scene(life.after)}"


def _events(events: Iterable[Event]) -> Iterator[str]:
    for event in events:
        if text := _event(event):
            yield f"          {text}"


def _death(life: LifeEvidence, kill: Kill) -> Iterator[str]:
    if not kill.loss:
        when = f"{kill.delay_ms} ms after" if kill.delay_ms else "at"
        yield f"          SIGKILL {when} {kill.label}:{kill.n}{', of the host alone' if kill.alone else ''}"
    if kill.alone:
        death = life.death
        rest = f"; then {death.survivors} of them were killed" if death.survivors else ""
        living = f"lived on, for {death.lived_on_s:.1f} s{rest}" if death.lived_on else "could live on"
        yield f"          of what it had started {death.lived_on} processes {living}"
    if not kill.loss:
        return
    yield f"          power lost at {kill.label}:{kill.n}, and with it {LOSSES[kill.loss]}"
    for lost in [line for event in life.of("power") for line in event["lost"]] or ["nothing: all of it was synced"]:
        yield f"            {lost}"


def _event(event: Event) -> str | None:
    name = event["event"]
    if name == "ask":
        broken = "".join(f"; the API refuses it, rule {rule}: {message}" for rule, message in event["broken"])
        return f"request {event['ask']} with {len(event['messages'])} messages{_told(event)}{broken}"
    if name == "answer":
        calls = ", ".join(f"{tool} ({call})" for call, tool in event["calls"])
        return f"  answer: {calls or 'no calls'}, stop_reason {event['stop_reason']}"
    if name == "ending":
        return f"ends: {event['status']}{' - ' + event['reason'] if event['reason'] else ''}"
    says = {
        "held": "waits at {label}",
        "released": "goes on",
        "begin": "{id} {tool}: entered",
        "effect": "{id}: EFFECT",
        "end": "{id}: raises" if event.get("raised") else "{id}: returns",
        "verify": "{id}: verify says {verdict}",
    }
    return says[name].format(**event) if name in says else None


def _told(ask: Event) -> str:
    """What the last message of a request tells the model of its calls."""
    results = shown_results(ask["messages"][-1:])
    says = [f"{call} -> {text[:40]!r}{' (error)' if is_error else ''}" for call, text, is_error in results]
    return f", telling it {'; '.join(says)}" if says else ""


def _scene(scene: Scene | None) -> str:
    if scene is None:
        return "nothing that can be loaded"
    ledger = ", ".join(f"{call} {state}" for call, state in (scene.ledger or {}).items())
    parts = [
        f"{len(scene.messages)} messages",
        f"pending {', '.join(scene.pending) or 'none'}" if scene.pending is not None else "",
        f"ledger {ledger or 'empty'}" if scene.ledger is not None else "",
        f"status {scene.status}" if scene.status else "",
    ]
    return "; ".join(part for part in parts if part)
