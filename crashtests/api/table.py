"""What a rule is, what breaking one is, and how the API would say so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from crashtests.api.request import Request

INVALID = "invalid_request_error"


@dataclass(frozen=True, slots=True)
class Rule:
    """One acceptance rule of the Messages API.

    `check` gives one line for each way a request breaks the rule, with the offending value and where it
    stands.

    `source` names the evidence: [D] a page under https://platform.claude.com/docs/en/, [S] source or docs of
    the `anthropic` SDK 2.14.0, [I] an issue that quotes a real answer of the server, [P] a written record of
    a live probe, [R] only seen in other people's re-implementations, `measured` with that SDK.

    `breaks` is a whole request that breaks this rule, `passes` the nearest one that breaks none. A `disputed`
    rule is one that sources contradict each other about: it binds those who want to be safe, but nobody can
    be blamed by it.
    """

    id: str
    says: str
    check: Callable[[Request], Iterable[str]]
    source: str
    breaks: dict[str, Any]
    passes: dict[str, Any]
    disputed: bool = False
    status: int = 400
    error_type: str = INVALID


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which one request breaks one rule, and the answer the API gives to it."""

    rule: str
    message: str
    status: int = 400
    error_type: str = INVALID


def error_body(violation: Violation, request_id: str) -> dict[str, Any]:
    """The body of the error response: `{"type": "error", "error": {"type", "message"}, "request_id"}`.

    Send it with `violation.status` and the header `request-id`. The message is ours: the API's own wording is
    not stable, so nothing may depend on it. Source: [D] api/errors.
    """
    return {
        "type": "error",
        "error": {"type": violation.error_type, "message": f"{violation.message} [{violation.rule}]"},
        "request_id": request_id,
    }
