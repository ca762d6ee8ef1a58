"""The guarantees of a matrix: those of the contract, and three verdicts that stand for themselves.

A guarantee is judged from outside, for every subject in the same way; where that is not possible, `cannot` says why.
"""

from __future__ import annotations

from collections.abc import Iterator

from crashtests.contract import violations
from crashtests.evidence import Evidence
from crashtests.subject import Subject

SESSION_KEPT = "SESSION-KEPT"
NOT_WEDGED = "NOT-WEDGED"
ONE_OWNER = "ONE-OWNER"

COLUMNS = {
    "AT-MOST-ONCE": "no effect twice",
    "TOLD": "somebody is told of what is not known",
    "PAIRED": "no request that the API refuses",
    "TRUE": "no result that never was",
    "SAME-END": "the end is the uninterrupted run's",
    "PROGRESS": "one resume ends it, and little is redone",
    SESSION_KEPT: "a run that has done something is found again",
    NOT_WEDGED: "the documented resume can finish the run",
    "HONEST-EXIT": "it says how it ended",
    "REFUSAL": "it takes back the state that it left",
    "NOTHING-LOST": "what was saved stays",
    ONE_OWNER: "a second resume beside a live one leaves the run alone",
}

# All but one can be judged of a run in which lives follow each other.
OF_ONE_RESUME = tuple(name for name in COLUMNS if name != ONE_OWNER)


def broken(evidence: Evidence, reference: Evidence, subject: Subject) -> dict[str, list[str]]:
    """Guarantee -> what went wrong, in sentences; only what can be judged, and is broken."""
    found: dict[str, list[str]] = {}
    for violation in violations(evidence, reference, subject):
        found.setdefault(violation.guarantee, []).append(violation.says)
    for name, says in ((SESSION_KEPT, _session_kept(evidence)), (NOT_WEDGED, _not_wedged(evidence, reference))):
        if told := list(says):
            found[name] = told
    return {name: says for name, says in found.items() if name not in cannot(subject)}


def cannot(subject: Subject) -> dict[str, str]:
    """Guarantees that cannot be judged for this subject, each with the reason."""
    reads = type(subject).scene is not Subject.scene
    return dict(subject.unjudged) | ({} if reads else {"NOTHING-LOST": "what it has saved is not read from outside"})


def _session_kept(evidence: Evidence) -> Iterator[str]:
    """Once a tool has done something, there is a run to resume."""
    done: list[str] = []
    for life in evidence.lives:
        if life.status == "missing" and done:
            yield f"life {life.number} found nothing to resume, although {', '.join(dict.fromkeys(done))} had run"
        done += [event["id"] for event in life.of("effect", "end")]


def _not_wedged(evidence: Evidence, reference: Evidence) -> Iterator[str]:
    """The last resume is left alone: it comes to the end."""
    if evidence.last.status != reference.last.status:
        reason = (evidence.last.ending or {}).get("reason", "")
        yield f"no resume came to the end; the last one ended '{evidence.last.status}' ({reason})"
