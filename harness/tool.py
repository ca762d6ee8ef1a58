"""Tools: what the model may call, and what repeating a call would do to the world.

A `Tool` is a definition for the API, a function, and an *effect class*, which decides what a resume may do with a
call whose process died. A tool that can find out whether its effect happened offers `verify`, and a resume asks it
instead of giving up. Tools are plain synchronous functions; calls of one turn run one after the other.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from harness.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The documented pattern (docs: agents-and-tools/tool-use/define-tools); some servers accept up to 128.
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_AT_TOP = frozenset({"oneOf", "anyOf", "allOf"})


class Effect(StrEnum):
    """What a call does to the world, and so what may be done with it after a crash."""

    READ_ONLY = "read_only"
    """Changes nothing: may always be run again."""
    IDEMPOTENT = "idempotent"
    """Safe to repeat under the same key, which is the `tool_use_id` (see `current_tool_use_id`)."""
    SIDE_EFFECT = "side_effect"
    """Must never happen twice. The default, since nobody regrets it."""


@dataclass(frozen=True, slots=True)
class Done:
    """A verify's answer: the effect happened, and this is what the tool would have returned."""

    output: Any = None
    is_error: bool = False


class Verdict(StrEnum):
    """A verify's other answers."""

    NOT_DONE = "not_done"
    """The effect did not happen *and cannot happen any more*: the call is run now."""
    CANNOT_TELL = "cannot_tell"
    """The model is told that the state is unknown."""


NOT_DONE = Verdict.NOT_DONE
CANNOT_TELL = Verdict.CANNOT_TELL

Run = Callable[[dict[str, Any]], Any]
Verify = Callable[[dict[str, Any], str], Done | Verdict]


class SdkTool(Protocol):
    """The shape of the SDK's `@beta_tool` objects, as far as it is used here."""

    name: str

    def to_dict(self) -> Any: ...
    def call(self, input: Any, /) -> Any: ...


@dataclass(frozen=True)
class Tool:
    """A tool the model may call.

    `name`: 1 to 64 of `[a-zA-Z0-9_-]`. `input_schema`: JSON schema with `"type": "object"`. `run(input)` gets a
    private copy of the input and returns a str, None, bytes, anything JSON can hold, or a list of content blocks;
    an exception it raises becomes an error result. `verify(input, tool_use_id)` -> `Done(output)`, `NOT_DONE` or
    `CANNOT_TELL`; it must not change the world.

    Raises `UsageError` for a definition the API would refuse.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    run: Run
    effect: Effect = field(default=Effect.SIDE_EFFECT, kw_only=True)
    verify: Verify | None = field(default=None, kw_only=True)
    definition: dict[str, Any] = field(default_factory=dict, kw_only=True, repr=False)
    """The entry of the request's `tools` list. Made from the fields above unless given whole."""

    def __post_init__(self) -> None:
        if not isinstance(self.effect, Effect):
            raise UsageError(f"tool {self.name!r}: effect={self.effect!r} is none of {', '.join(Effect)}")
        if not self.definition:
            schema = self.input_schema
            plain = {
                "name": self.name,
                "description": self.description,
                "input_schema": dict(schema) if isinstance(schema, Mapping) else schema,
            }
            object.__setattr__(self, "definition", plain)
        _check_definition(self)

    @classmethod
    def from_sdk(cls, sdk_tool: SdkTool, *, effect: Effect = Effect.SIDE_EFFECT, verify: Verify | None = None) -> Tool:
        """Wrap an object made by the SDK's `@beta_tool`; the effect class, which it lacks, is given beside it."""
        definition = dict(sdk_tool.to_dict())
        return cls(
            sdk_tool.name,
            str(definition.get("description", "")),
            definition.get("input_schema", {}),
            sdk_tool.call,
            effect=effect,
            verify=verify,
            definition=definition,
        )


def _check_definition(tool: Tool) -> None:
    if not isinstance(tool.name, str) or not _NAME.fullmatch(tool.name):
        raise UsageError(f"tool name {tool.name!r} is not 1 to 64 letters, digits, '_' or '-'")
    for function in (tool.run,) if tool.verify is None else (tool.run, tool.verify):
        if not callable(function):
            raise UsageError(f"tool {tool.name!r}: {function!r} is not a function")
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            raise UsageError(f"tool {tool.name!r}: {function!r} is async; wrap it with asyncio.run")
    if tool.definition.get("name") != tool.name:
        raise UsageError(f"tool {tool.name!r}: its definition is named {tool.definition.get('name')!r}")
    if not isinstance(tool.definition.get("description", ""), str):
        raise UsageError(f"tool {tool.name!r}: description {tool.definition['description']!r} is not a text")
    schema = tool.definition.get("input_schema")
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise UsageError(f"tool {tool.name!r}: input_schema must be a JSON schema with type 'object', not {schema!r}")
    if combined := _NOT_AT_TOP.intersection(schema):
        raise UsageError(f"tool {tool.name!r}: input_schema has {min(combined)} at its top level (rule E3)")
    try:
        json.dumps(tool.definition, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as cause:
        raise UsageError(f"tool {tool.name!r}: its definition is not JSON: {cause}") from cause


def tools_by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Index `tools`. Raises `UsageError` for a name given twice (the API refuses it) or something not a Tool."""
    by_name: dict[str, Tool] = {}
    for tool in tools:
        if not isinstance(tool, Tool):
            raise UsageError(f"{tool!r} is not a harness.Tool; wrap an SDK tool with Tool.from_sdk(it, effect=...)")
        if tool.name in by_name:
            raise UsageError(f"two tools are named {tool.name!r}; names must be unique")
        by_name[tool.name] = tool
    return by_name


_current: ContextVar[str] = ContextVar("tool_use_id")


def current_tool_use_id() -> str:
    """The `tool_use_id` of the call that is running: the key to hand to a service that accepts one.

    Raises `UsageError` outside of a running tool.
    """
    try:
        return _current.get()
    except LookupError:
        problem = "while no tool is running in this thread; one that a tool starts must be handed the id"
        raise UsageError(f"current_tool_use_id() was asked for {problem}") from None


@contextmanager
def running(tool_use_id: str) -> Iterator[None]:
    """Make `tool_use_id` the current one."""
    token = _current.set(tool_use_id)
    try:
        yield
    finally:
        _current.reset(token)
