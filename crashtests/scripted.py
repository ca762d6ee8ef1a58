"""The scripted model: says what the script says, behaves like the API, and judges every request it is sent.

It answers from the conversation: the number of assistant turns in the request is the place in the script. Every ask
is numbered over all lives (in the world log, before it answers) and mints fresh ids, so a lost turn that is asked
again comes back under new ones. It signs thinking blocks over all that came before, as the API does, and a request
that the API would refuse is refused (`ApiRefused`), with the broken rules in the world log.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from crashtests.api import Signer, error_body, judge
from crashtests.kinds import ENDS, FIRST_ASKS
from crashtests.schedule import PAUSED, Schedule, Turn
from crashtests.world import World

Block = dict[str, Any]

MODEL_ASKED = "model-asked"
MODEL_ANSWERED = "model-answered"

# Crash points for subjects that have none of their own around a request.
MODEL_POINTS = {
    MODEL_ASKED: "the request has arrived, no answer was made",
    MODEL_ANSWERED: "the answer is made, the harness has not seen it",
}

ANSWER = "All done."
_SIGNED = ("thinking", "redacted_thinking")
_SIGNER = Signer(b"the campaign's own key")


class ApiRefused(Exception):
    """The API would answer this request with an error: `status` and `body` as on the wire."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {body['error']['message']}")
        self.status = status
        self.body = body


class ScriptedModel:
    """Answers requests by `schedule`.

    `strict`: the disputed rules bind as well. `accepted`: digests of requests that were judged before and accepted;
    most requests of a sweep are repetitions. `asks_from`: asks are numbered from there at least. `names_steps`:
    the input of a call says its step.
    """

    name = "scripted"

    def __init__(
        self,
        schedule: Schedule,
        world: World,
        *,
        strict: bool,
        accepted: Collection[str] = (),
        asks_from: int = 0,
        names_steps: bool = False,
        point: Callable[[str], None] = lambda label: None,
    ) -> None:
        self._schedule = schedule
        self._world = world
        self._strict = strict
        self._accepted = accepted
        self._names_steps = names_steps
        self._asks = max(world.asks, asks_from)
        self._point = point

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The response body to a Messages API request. Raises `ApiRefused`."""
        messages = request["messages"]
        self._asks += 1
        paused = messages[-1]["role"] == "assistant" and _is_paused(messages[-1])
        digest = _digest(request)
        prefix = _digest({name: request.get(name) for name in ("model", "system", "tools")})
        known = digest in self._accepted
        broken = [] if known else judge(request, signer=_SIGNER, strict=self._strict, paused=paused)
        position = sum(m["role"] == "assistant" for m in messages)
        first = not any(e["event"] == "ask" and e["position"] == position for e in self._world.known())
        says = [[violation.rule, violation.message] for violation in broken]
        where = {"ask": self._asks, "position": position, "digest": digest, "prefix": prefix}
        self._world.log("ask", **where, messages=messages, broken=says)
        self._point(MODEL_ASKED)
        if broken:
            raise ApiRefused(broken[0].status, error_body(broken[0], f"req_{self._asks}"))
        content, stop_reason = self._answer(position, first, earlier := _ids(messages))
        if paused:
            content.insert(0, _server_result(messages[-1]["content"][-1]["id"]))
        if any(block["type"] in _SIGNED for block in content):
            content = _SIGNER.signed(request, content)
        uses = [block for block in content if block["type"] == "tool_use" and block["id"] not in earlier]
        calls = [[block["id"], block["name"]] for block in uses]
        self._world.log("answer", calls=calls, stop_reason=stop_reason, content=content)
        response = {
            "id": f"msg_{self._asks}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": usage(position),
        }
        self._point(MODEL_ANSWERED)
        return response

    def afresh(self) -> ScriptedModel:
        """The same model for a process that goes on when this one is dead: it knows all that was logged till now."""
        world = self._world.afresh()
        return ScriptedModel(self._schedule, world, strict=self._strict, names_steps=self._names_steps)

    def _answer(self, position: int, first: bool, earlier: Sequence[str]) -> tuple[list[Block], str | None]:
        turns = self._schedule.turns
        if position >= len(turns):
            stop_reason, speaks = ENDS[self._schedule.end]
            return [{"type": "text", "text": ANSWER, "citations": None}] if speaks else [], stop_reason
        turn = turns[position]
        if turn == PAUSED:
            return [_server_call(self._asks)], "pause_turn"
        content = [block for word in turn.beside for block in self._beside(word)]
        calls = self._calls(position, turn)
        cut = [word for word in turn.beside if word in FIRST_ASKS]
        if first and cut:
            return _cut_short(cut[0], content, calls, earlier)
        return content + calls, "tool_use"

    def _beside(self, word: str) -> list[Block]:
        if word == "thinking":
            return [{"type": "thinking", "thinking": "", "signature": ""}]
        if word == "redacted":
            return [{"type": "redacted_thinking", "data": ""}]
        if word == "server":
            call = _server_call(self._asks)
            return [call, _server_result(call["id"])]
        if word == "blank":
            return [{"type": "text", "text": "\n"}]
        return [{"type": "text", "text": "Working on it.", "citations": None}] if word == "text" else []

    def _calls(self, position: int, turn: Turn) -> list[Block]:
        number = sum(t != PAUSED for t in self._schedule.turns[:position]) + 1
        return [
            {
                "type": "tool_use",
                "id": f"call_{number}-{place}_a{self._asks}",
                "name": name,
                # Equal inputs throughout: only the id tells two calls of one tool apart.
                "input": {"amount": 5} | ({"step": f"{number}-{place}"} if self._names_steps else {}),
            }
            for place, name in enumerate(turn.calls, start=1)
        ]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:20]


def usage(position: int) -> dict[str, int | None]:
    """What the response at this place in the script costs: not the same for any two, and each kind of token counts."""
    cached: dict[str, int | None] = {"cache_creation_input_tokens": 40, "cache_read_input_tokens": None}
    if position:
        cached = {"cache_creation_input_tokens": None, "cache_read_input_tokens": 40}
    return {"input_tokens": 60 + position, "output_tokens": 7, **cached}


def _ids(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ids of all calls of a conversation."""
    content = [block for m in messages if m["role"] == "assistant" for block in m["content"]]
    return [block["id"] for block in content if isinstance(block, dict) and block.get("type") == "tool_use"]


def _cut_short(
    word: str, content: list[Block], calls: list[Block], earlier: Sequence[str]
) -> tuple[list[Block], str | None]:
    """A turn that must not be executed: its last call is incomplete, or its ids are not unique.

    `earlier`: the ids of all turns before it; where there is none, an id that should be of those is of this turn.
    """
    if word == "!old_id" and earlier:
        return [*content, *calls[:-1], {**calls[-1], "id": earlier[0]}], FIRST_ASKS[word]
    if word in ("!same_id", "!old_id"):
        return [*content, *calls, calls[0]], FIRST_ASKS[word]
    return [*content, *calls[:-1], {**calls[-1], "input": {}}], FIRST_ASKS[word]


def _server_call(ask: int) -> Block:
    return {"type": "server_tool_use", "id": f"srvtoolu_{ask}", "name": "web_search", "input": {"query": "rates"}}


def _server_result(server_id: str) -> Block:
    return {"type": "web_search_tool_result", "tool_use_id": server_id, "content": [], "caller": None}


def _is_paused(message: Mapping[str, Any]) -> bool:
    last = message["content"][-1]
    return isinstance(last, dict) and last.get("type") == "server_tool_use"
