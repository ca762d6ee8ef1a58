"""The acceptance rules of the Messages API, as one table, and the judge that holds a request against it.

The API refuses a request as a whole, with a 400, and a harness that has saved a history the API refuses is
stuck for good. So what a harness may save is what passes here. The rules are written down from documentation,
from the types of the SDK and from what people report the server to answer; each carries its evidence, and
where sources contradict each other the rule says so (`disputed`). They describe the current models
(`claude-opus-5-5` and any name that is not Claude's) under API version 2026-10-21, without beta features;
older Claude models where the difference is known.

Adding a rule takes one place: a `Rule` in the file of its concept, with a request that breaks it and one that
passes.

What is deliberately allowed: merged messages of one role, text after results, results in any order among
themselves, results without content, calls of tools that are no longer provided, several thinking blocks,
assistant turns without text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crashtests.api.blocks import BLOCK_RULES
from crashtests.api.pairing import PAIRING
from crashtests.api.request import Request
from crashtests.api.roles import ROLE_RULES
from crashtests.api.server_tools import SERVER_TOOLS
from crashtests.api.signing import Signer
from crashtests.api.table import Rule, Violation
from crashtests.api.thinking import THINKING
from crashtests.api.tools import TOOLS
from crashtests.api.top_level import TOP_LEVEL

RULES: tuple[Rule, ...] = (
    *TOP_LEVEL,
    *ROLE_RULES,
    *BLOCK_RULES,
    *PAIRING,
    *SERVER_TOOLS,
    *TOOLS,
    *THINKING,
)

_SETTLED = tuple(rule for rule in RULES if not rule.disputed)
_UNSENDABLE = tuple(rule for rule in RULES if rule.id == "A9")


def judge(
    request: Mapping[str, Any], *, signer: Signer | None = None, strict: bool = True, paused: bool = False
) -> list[Violation]:
    """Every way in which a request body breaks the rules, in the order of the table; empty means accepted.

    `request` is the body as JSON would give it (dicts and lists, no tuples, no SDK objects). It is never changed,
    and judging never raises, whatever is in it.

    `signer` is the one that signed the responses; without it, thinking blocks only need some signature.
    `strict=False` leaves out the disputed rules. `paused` says that the last response is known to have stopped with
    pause_turn: a trailing assistant turn then resumes it. Without that knowledge a trailing assistant turn passes if
    it has blocks of a server tool and no client call.

    The API answers with one error; take the first violation for that. A body that cannot be sent at all breaks A9
    and nothing else, since no server would ever see it.
    """
    read = Request(request, signer=signer, paused=paused)
    rules = _UNSENDABLE if read.unsendable else RULES if strict else _SETTLED
    return [Violation(rule.id, message, rule.status, rule.error_type) for rule in rules for message in rule.check(read)]
