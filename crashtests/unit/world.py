"""The outside world of the tests: a log that only grows, tools that change it, and a model that is part of it.

The log is appended with one write per event through a descriptor of its own, so what happened before a kill is there
after it, whatever the harness had in memory. An *entry* is a tool that began, an *effect* is the change it makes; an
idempotent tool makes its effect once per key, however often it is entered.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from crashtests.api import judge
from harness import CANNOT_TELL, NOT_DONE, Done, Effect, ScriptedModel, Tool, Verdict, current_tool_use_id
from harness.crash import crash_point

SCHEMA = {"type": "object"}
DONE_TEXT = "it is done"


class World:
    """What happened, in order: `["entry", name, tool_use_id]`, `["effect", ...]`, `["verify", ...]`, `["ask", id]`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._made: list[tuple[Tool, list[Any]]] = []

    def note(self, *event: str) -> None:
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, f"{json.dumps(event)}\n".encode())
        finally:
            os.close(fd)

    def of(self, kind: str) -> list[str]:
        """The ids of the events of one kind, in order."""
        if not self.path.exists():
            return []
        events = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [event[-1] for event in events if event[0] == kind]

    def tool(
        self,
        name: str = "act",
        effect: Effect = Effect.SIDE_EFFECT,
        verify: Callable[[dict[str, Any], str], Any] | None = None,
    ) -> Tool:
        """A tool that logs its entry, then its effect; a kill can come between (`tool-entered`)."""

        def run(arguments: dict[str, Any]) -> str:
            key = current_tool_use_id()
            self.note("entry", name, key)
            crash_point("tool-entered")
            if effect is not Effect.IDEMPOTENT or key not in self.of("effect"):
                self.note("effect", name, key)
            return DONE_TEXT

        made = Tool(name, f"Does {name}.", SCHEMA, run, effect=effect, verify=verify)
        self._made.append((made, [name, effect.value, verify and verify.__name__]))
        return made

    def words_for(self, tool: Tool) -> list[Any]:
        """What another process needs to know to make the same tool of the same world: `tool_again` takes it."""
        return next(words for made, words in self._made if made is tool)

    def tool_again(self, words: list[Any]) -> Tool:
        name, effect, verify = words
        return self.tool(name, Effect(effect), verify and getattr(self, verify))

    def verify(self, arguments: dict[str, Any], tool_use_id: str) -> Done | Verdict:
        """Looks into the log, where an effect leaves its key."""
        self.note("verify", tool_use_id)
        return Done(DONE_TEXT) if tool_use_id in self.of("effect") else NOT_DONE

    def verify_cannot_tell(self, arguments: dict[str, Any], tool_use_id: str) -> Verdict:
        self.note("verify", tool_use_id)
        return CANNOT_TELL

    def verify_raises(self, arguments: dict[str, Any], tool_use_id: str) -> Verdict:
        self.note("verify", tool_use_id)
        raise TimeoutError("the ledger of the bank is down")

    def verify_says_nothing(self, arguments: dict[str, Any], tool_use_id: str) -> Any:
        self.note("verify", tool_use_id)


# More than any scene asks; a loop that is broken may ask for ever.
_ASKS_MAX = 200


class WorldModel:
    """A scripted model that takes requests as the API does: one that breaks a rule is an error, never answered.

    `requests` is what it was sent in this process, as it came.
    With `fresh_ids`, every ask names its calls by the number of asks in the world's log, so that a lost turn that is
    asked again comes back under other ids, as the API's would.
    """

    name = "scripted"

    def __init__(self, world: World, responses: Sequence[dict[str, Any]], *, fresh_ids: bool = False) -> None:
        self._world = world
        self.responses = list(responses)
        self.fresh_ids = fresh_ids
        self.requests: list[dict[str, Any]] = []
        self._script = ScriptedModel(responses, mint_id=self._mint if fresh_ids else None)

    def ask(self, request: dict[str, Any]) -> Any:
        self._world.note("ask", str(len(request["messages"])))
        self.requests.append(copy.deepcopy(request))
        if len(self.requests) > _ASKS_MAX:
            raise AssertionError(f"asked more than {_ASKS_MAX} times: this run does not end")
        # Nobody prefills here: an assistant turn at the end is a paused one that is sent back (rule B5x).
        if violations := judge(request, paused=True):
            raise AssertionError(f"the API would refuse this request: {violations}")
        return self._script.ask(request)

    def _mint(self) -> str:
        return f"ask-{len(self._world.of('ask'))}"
