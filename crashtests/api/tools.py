"""Rules E: what `tools` and `tool_choice` may say."""

from __future__ import annotations

from collections.abc import Iterator

from crashtests.api.examples import cached, request, tool, without
from crashtests.api.pairing import NAME, NAME_LENGTH_SAFE
from crashtests.api.request import Request
from crashtests.api.table import Rule
from crashtests.api.vocabulary import TOOL_CHOICE_KEYS, entries, model_line

FORCING_REFUSED = {("opus", (5, 5)), ("sonnet", (5, 5)), ("fable", (5, 1)), ("mythos", (5, 1))}

_COMBINERS = ("oneOf", "anyOf", "allOf")
_SCHEMA_LISTS = ("oneOf", "anyOf", "allOf", "prefixItems")
_SCHEMA_MAPS = ("properties", "$defs", "definitions")


def _unique(request: Request) -> Iterator[str]:
    names = [str(entry["name"]) for entry in request.tools if "name" in entry]
    for name in sorted(set(names)) if len(set(names)) < len(names) else ():
        if names.count(name) > 1:
            yield f"tools: names must be unique, {name!r} is there {names.count(name)} times"


def _names(request: Request) -> Iterator[str]:
    for i, entry in request.custom_tools:
        name = entry.get("name")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            yield f"tools.{i}.custom.name: {name!r} does not match {NAME.pattern}"


def _short_names(request: Request) -> Iterator[str]:
    for i, entry in request.custom_tools:
        name = entry.get("name")
        if isinstance(name, str) and NAME.fullmatch(name) and len(name) > NAME_LENGTH_SAFE:
            yield f"tools.{i}.custom.name: {name!r} has {len(name)} characters, more than {NAME_LENGTH_SAFE}"


def _schemas(request: Request) -> Iterator[str]:
    tools = request.body.get("tools", [])
    if not isinstance(tools, list) or len(request.tools) < len(tools):
        yield f"tools: a list of objects, not {tools!r}"
    for i, entry in request.custom_tools:
        where, schema = f"tools.{i}.custom.input_schema", entry.get("input_schema")
        if not isinstance(schema, dict):
            yield f"{where}: an object is required, not {schema!r}"
            continue
        if schema.get("type") != "object":
            yield f"{where}.type: 'object' is required, not {schema.get('type')!r}"
        for key in _COMBINERS:
            if key in schema:
                yield f"{where}: {key} is not supported at the top level"
        if not isinstance(schema.get("properties") or {}, dict):
            yield f"{where}.properties: an object, not {schema['properties']!r}"
        required = schema.get("required") or []
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            yield f"{where}.required: a list of names, not {required!r}"


def _closed_schemas(request: Request) -> Iterator[str]:
    for i, entry in request.custom_tools:
        if entry.get("strict") is True:
            for where in _open_objects(entry.get("input_schema"), f"tools.{i}.custom.input_schema"):
                yield f"{where}: for a strict tool `additionalProperties` must be false"


def _open_objects(schema: object, where: str) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield where
    for key in _SCHEMA_MAPS:
        inner = schema.get(key)
        for name, value in inner.items() if isinstance(inner, dict) else ():
            yield from _open_objects(value, f"{where}.{key}.{name}")
    for key in _SCHEMA_LISTS:
        for k, value in enumerate(entries(schema.get(key))):
            yield from _open_objects(value, f"{where}.{key}.{k}")
    yield from _open_objects(schema.get("items"), f"{where}.items")


def _choice(request: Request) -> Iterator[str]:
    if "tool_choice" not in request.body:
        return
    choice = request.body["tool_choice"]
    if not isinstance(choice, dict):
        yield f"tool_choice: an object is required, not {choice!r}"
    elif str(choice.get("type")) not in TOOL_CHOICE_KEYS:
        yield f"tool_choice.type: {choice.get('type')!r} is not one of {', '.join(TOOL_CHOICE_KEYS)}"
    elif choice["type"] == "tool":
        names = [entry.get("name") for entry in request.tools]
        if choice.get("name") not in names:
            yield f"tool_choice.name: {choice.get('name')!r} is not one of the tools: {names}"


def _not_forced(request: Request) -> Iterator[str]:
    choice, thinking = request.body.get("tool_choice"), request.body.get("thinking")
    if not isinstance(choice, dict) or choice.get("type") not in ("any", "tool"):
        return
    model = request.body.get("model")
    if model_line(model) in FORCING_REFUSED:
        yield f"tool_choice: {choice['type']!r} is not supported by {model!r}, use 'auto' or 'none'"
    elif isinstance(thinking, dict) and thinking.get("type") == "enabled":
        yield f"tool_choice: {choice['type']!r} cannot be combined with manual thinking, use 'auto' or 'none'"


def _deferred(request: Request) -> Iterator[str]:
    tools = request.tools
    deferred = [entry for entry in tools if entry.get("defer_loading") is True]
    if tools and len(deferred) == len(tools):
        yield f"tools: all {len(tools)} are deferred, at least one must have defer_loading false"
    for entry in deferred:
        if entry.get("cache_control") is not None:
            yield f"tools: {entry.get('name')!r} is deferred and cannot have cache_control"


_OPEN = {"type": "object", "properties": {}}

TOOLS = (
    Rule(
        id="E1",
        says="tool names are unique",
        check=_unique,
        source="[I] anthropics/claude-code#10687",
        breaks=request(tools=[tool("look"), tool("look")]),
        passes=request(tools=[tool("look"), tool("act")]),
    ),
    Rule(
        id="E2",
        says="a tool's name is made of letters, digits, _ and -, 1 to 128 of them",
        check=_names,
        source="[D] agents-and-tools/tool-use/define-tools; [P]; the upper bound from server texts of 2026",
        breaks=request(tools=[tool("look up")]),
        passes=request(tools=[tool("look_up")]),
    ),
    Rule(
        id="E2b",
        says="a tool's name has at most 64 characters",
        check=_short_names,
        source="[D] agents-and-tools/tool-use/define-tools says 64, server texts of 2026 say 128",
        breaks=request(tools=[tool("n" * 65)]),
        passes=request(tools=[tool("n" * 64)]),
        disputed=True,
    ),
    Rule(
        id="E3",
        says="a tool has an input_schema: an object's, without oneOf, anyOf or allOf at the top",
        check=_schemas,
        source="[P]; [I] anthropics/claude-code#86664, Hmbown/Codewhale#4329",
        breaks=request(tools=[without(tool(), "input_schema")]),
        passes=request(tools=[tool()]),
    ),
    Rule(
        id="E4",
        says="a strict tool closes its objects with additionalProperties: false",
        check=_closed_schemas,
        source="[P]",
        breaks=request(tools=[tool(strict=True)]),
        passes=request(tools=[tool(strict=True, input_schema={**_OPEN, "additionalProperties": False})]),
    ),
    Rule(
        id="E5",
        says="tool_choice is an object: auto, any, none, or a tool that exists",
        check=_choice,
        source="[P]; [S] anthropic.types.ToolChoiceParam",
        breaks=request(tool_choice={"type": "required"}),
        passes=request(tool_choice={"type": "auto"}),
    ),
    Rule(
        id="E6",
        says="no forced tool use on the models that refuse it, nor with manual thinking",
        check=_not_forced,
        source="[D] whats-new-opus-5-5, agents-and-tools/tool-use/define-tools",
        breaks=request(tool_choice={"type": "tool", "name": "look"}),
        passes=request(tool_choice={"type": "tool", "name": "look"}, model="claude-haiku-5-5"),
    ),
    Rule(
        id="E7",
        says="not all tools are deferred, and a deferred one has no cache_control",
        check=_deferred,
        source="[D] agents-and-tools/tool-use/tool-search-tool",
        breaks=request(tools=[tool("look"), tool("act", defer_loading=True, **cached())]),
        passes=request(tools=[tool("look"), tool("act", defer_loading=True)]),
    ),
)
