"""Rules D: every call has its result, and every result its call.

The rules are judged on turns, as the API merges them. Where the answer would depend on whether messages are
merged before the pairing is checked (a turn's results, or calls, spread over several messages), sources
disagree: that is D18.

Not here, because they forbid nothing: D15 (text after the results is allowed) and D19 (what to answer for a
call that was not run; a missing answer is D1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from crashtests.api.examples import IMAGE, assistant, call, request, result, text, user, without
from crashtests.api.request import Block, Request
from crashtests.api.table import Rule
from crashtests.api.vocabulary import NESTED_KEYS, entries, is_blank

ID = re.compile(r"[a-zA-Z0-9_-]+")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
NAME_LENGTH_SAFE = 64
SERVER_ID = "srvtoolu_"


def _ids(blocks: list[Block], key: str) -> list[str]:
    return [block.data[key] for block in blocks if isinstance(block.data.get(key), str)]


def _answered(request: Request) -> Iterator[str]:
    for calls, results, _ in request.exchanges:
        answered = set(_ids(results, "tool_use_id"))
        missing = [call_id for call_id in _ids(calls, "id") if call_id not in answered]
        if missing:
            yield (
                f"messages.{calls[0].i}: `tool_use` ids without `tool_result` in the next message: {', '.join(missing)}"
            )


def _results_first(request: Request) -> Iterator[str]:
    for turn in request.turns:
        before: Block | None = None
        for block in turn.blocks if turn.role == "user" else ():
            if block.type != "tool_result":
                before = block
            elif before is not None and before.i == block.i:
                yield f"{block.where}: a `{before.type}` block stands before this `tool_result` in the same message"


def _nothing_between(request: Request) -> Iterator[str]:
    for turn in request.turns:
        between: Block | None = None
        for block in turn.blocks if turn.role == "user" else ():
            if block.type != "tool_result":
                between = between or block
            elif between is not None and between.i < block.i:
                yield f"{block.where}: message {between.i} stands between this `tool_result` and its `tool_use`"


def _no_orphan(request: Request) -> Iterator[str]:
    server_ids = {str(block.data.get("id")) for block in request.of("server_tool_use")}
    calls: set[str] = set()
    for turn in request.turns:
        if turn.role == "user":
            for block in turn.results:
                call_id = block.data.get("tool_use_id")
                # A result for a server tool's call is S3.
                if isinstance(call_id, str) and call_id not in calls and call_id not in server_ids:
                    yield f"{block.where}: {call_id!r} names no `tool_use` of the previous assistant message"
        calls = set(_ids(turn.calls, "id")) if turn.role == "assistant" else set()


def _answered_once(request: Request) -> Iterator[str]:
    for turn in request.turns:
        if turn.role == "user" and len(turn.results) > 1:
            ids = _ids(turn.results, "tool_use_id")
            for call_id in sorted(set(ids)) if len(set(ids)) < len(ids) else ():
                if ids.count(call_id) > 1:
                    yield f"messages.{turn.results[0].i}: {ids.count(call_id)} `tool_result` blocks for {call_id!r}"


def _ids_unique(request: Request) -> Iterator[str]:
    seen: dict[str, str] = {}
    for block in request.of("tool_use"):
        call_id = block.data.get("id")
        if isinstance(call_id, str):
            if call_id in seen:
                yield f"{block.where}: `tool_use` id {call_id!r} is already that of {seen[call_id]}"
            seen.setdefault(call_id, block.where)


def _id_pattern(request: Request) -> Iterator[str]:
    for kind, key in (("tool_use", "id"), ("tool_result", "tool_use_id")):
        for block in request.of(kind):
            call_id = block.data.get(key)
            if kind == "tool_result" and not isinstance(call_id, str):
                continue  # D10
            if not isinstance(call_id, str) or not ID.fullmatch(call_id):
                yield f"{block.where}.{kind}.{key}: {call_id!r} does not match {ID.pattern}"


def _input_object(request: Request) -> Iterator[str]:
    for block in request.of("tool_use"):
        if not isinstance(block.data.get("input"), dict):
            yield f"{block.where}.tool_use.input: an object is required, not {block.data.get('input')!r}"


def _name_pattern(request: Request) -> Iterator[str]:
    for block in request.of("tool_use"):
        name = block.data.get("name")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            yield f"{block.where}.tool_use.name: {name!r} does not match {NAME.pattern}"


def _name_short(request: Request) -> Iterator[str]:
    for block in request.of("tool_use"):
        name = block.data.get("name")
        if isinstance(name, str) and NAME.fullmatch(name) and len(name) > NAME_LENGTH_SAFE:
            yield f"{block.where}.tool_use.name: {name!r} has {len(name)} characters, more than {NAME_LENGTH_SAFE}"


def _result_names_call(request: Request) -> Iterator[str]:
    for block in request.of("tool_result"):
        if not isinstance(block.data.get("tool_use_id"), str):
            yield f"{block.where}.tool_result.tool_use_id: required, not {block.data.get('tool_use_id')!r}"


def _result_content(request: Request) -> Iterator[str]:
    for block in request.of("tool_result"):
        content = block.data.get("content", "")
        if not isinstance(content, (str, list)):
            yield f"{block.where}.tool_result.content: a string or a list of blocks, not {content!r}"
        for k, nested in enumerate(content if isinstance(content, list) else ()):
            kind = nested.get("type") if isinstance(nested, dict) else None
            if not isinstance(kind, str) or kind not in NESTED_KEYS:
                yield f"{block.where}.tool_result.content.{k}: {nested!r} is none of {', '.join(NESTED_KEYS)}"
            elif kind == "text" and not isinstance(nested.get("text"), str):
                yield f"{block.where}.tool_result.content.{k}.text: a string is required, not {nested.get('text')!r}"
        if not isinstance(block.data.get("is_error", False), bool):
            yield f"{block.where}.tool_result.is_error: true or false, not {block.data['is_error']!r}"


def _error_is_text(request: Request) -> Iterator[str]:
    for block in request.of("tool_result"):
        if block.data.get("is_error") is True:
            kinds = [nested.get("type") for nested in entries(block.data.get("content"))]
            if any(kind != "text" for kind in kinds):
                yield f"{block.where}.tool_result: with `is_error` all content is text, not {kinds}"


def _error_says_something(request: Request) -> Iterator[str]:
    for block in request.of("tool_result"):
        if block.data.get("is_error") is True and not block.data.get("content"):
            yield f"{block.where}.tool_result: with `is_error` the content cannot be empty"


def _result_not_blank(request: Request) -> Iterator[str]:
    for block in request.of("tool_result"):
        content = block.data.get("content")
        if content == "" and block.data.get("is_error") is not True:
            yield f"{block.where}.tool_result.content: empty string; leave `content` out, or say '(no output)'"
        for k, nested in enumerate(entries(content)):
            if nested.get("type") == "text" and is_blank(nested.get("text")):
                yield f"{block.where}.tool_result.content.{k}.text: {nested['text']!r} is blank; say '(no output)'"


def _tools_defined(request: Request) -> Iterator[str]:
    if not request.body.get("tools"):
        for block in request.of("tool_use", "tool_result"):
            yield f"tools: required, since {block.where} is a `{block.type}` block"
            return


def _toolset(request: Request) -> Iterator[str]:
    if not (request.mentions("toolset_name") or request.mentions("browser_state")):
        return
    for calls, results, _ in request.exchanges:
        toolset_of = {str(call.data.get("id")): call.data.get("toolset_name") for call in calls}
        for block in results:
            wanted, given = toolset_of.get(str(block.data.get("tool_use_id"))), block.data.get("toolset_name")
            if str(block.data.get("tool_use_id")) in toolset_of and given != wanted:
                yield f"{block.where}.tool_result.toolset_name: {given!r}, but the call has {wanted!r}"
            kinds = [str(nested.get("type")) for nested in entries(block.data.get("content"))]
            allowed = {"text", "image", "browser_state"} if wanted == "browser" else {"text", "image"}
            if wanted is not None and not set(kinds) <= allowed:
                yield f"{block.where}.tool_result: a result of toolset {wanted!r} holds {sorted(allowed)}, not {kinds}"
            elif wanted != "browser" and "browser_state" in kinds:
                yield f"{block.where}.tool_result: browser_state only answers a call of the browser toolset"


def _one_message(request: Request) -> Iterator[str]:
    for calls, results, _ in request.exchanges:
        for what, blocks in (("calls", calls), ("results", results)):
            messages = sorted({block.i for block in blocks})
            if len(messages) > 1:
                yield f"messages.{messages[0]}: the {what} of one turn are spread over messages {messages}"


_PARALLEL = assistant(call("t1"), call("t2"))

PAIRING = (
    Rule(
        id="D1",
        says="every tool_use of an assistant turn, anywhere in the history, is answered in the very next user message",
        check=_answered,
        source="[D] agents-and-tools/tool-use/handle-tool-calls, agents-and-tools/tool-use/troubleshooting-tool-use;"
        " [I] anthropics/claude-code#8210, letta#3308",
        breaks=request(user("hello"), _PARALLEL, user(result("t1"))),
        passes=request(user("hello"), _PARALLEL, user(result("t1"), result("t2"))),
    ),
    Rule(
        id="D2",
        says="in a message, nothing stands before the tool_result blocks",
        check=_results_first,
        source="[D] agents-and-tools/tool-use/handle-tool-calls, agents-and-tools/tool-use/troubleshooting-tool-use",
        breaks=request(user("hello"), assistant(call("t1")), user("go on", result("t1"))),
        passes=request(user("hello"), assistant(call("t1")), user(result("t1"), "go on")),
    ),
    Rule(
        id="D3",
        says="no message stands between a call and its result",
        check=_nothing_between,
        source="[D] agents-and-tools/tool-use/handle-tool-calls",
        breaks=request(user("hello"), assistant(call("t1")), user("go on"), user(result("t1"))),
        passes=request(user("hello"), assistant(call("t1")), user(result("t1")), user("go on")),
    ),
    Rule(
        id="D4",
        says="every tool_result answers a call of the previous assistant message",
        check=_no_orphan,
        source="[I] anthropics/claude-code#18947",
        breaks=request(user("hello"), assistant(call("t1")), user(result("t1")), assistant("done"), user(result("t1"))),
        passes=request(user("hello"), assistant(call("t1")), user(result("t1")), assistant("done"), user("go on")),
    ),
    Rule(
        id="D5",
        says="one tool_result for one tool_use",
        check=_answered_once,
        source="the server's text, quoted word for word in several repositories' tests",
        breaks=request(user("hello"), assistant(call("t1")), user(result("t1"), result("t1", "again"))),
        passes=request(user("hello"), assistant(call("t1")), user(result("t1"))),
    ),
    Rule(
        id="D6",
        says="tool_use ids are unique in the whole request",
        check=_ids_unique,
        source="[I] anthropics/claude-code#28515, anthropics/claude-code#21317, NachoSEO/claudegram#12",
        breaks=request(
            user("hello"),
            assistant(call("t1")),
            user(result("t1")),
            assistant(call("t1")),
            user(result("t1")),
        ),
        passes=request(
            user("hello"),
            assistant(call("t1")),
            user(result("t1")),
            assistant(call("t2")),
            user(result("t2")),
        ),
    ),
    Rule(
        id="D7",
        says="ids are made of letters, digits, _ and -, one at least",
        check=_id_pattern,
        source="[I] and [P], many",
        breaks=request(user("hello"), assistant(call("call:1")), user(result("call:1"))),
        passes=request(user("hello"), assistant(call("call-1")), user(result("call-1"))),
    ),
    Rule(
        id="D8",
        says="the input of a tool_use is an object",
        check=_input_object,
        source="[I] anthropics/claude-code#6696, prism-php#659",
        breaks=request(user("hello"), assistant(call("t1", input='{"a": 1}')), user(result("t1"))),
        passes=request(user("hello"), assistant(call("t1", input={"a": 1})), user(result("t1"))),
    ),
    Rule(
        id="D9",
        says="the name in a tool_use is made of letters, digits, _ and -, 1 to 128 of them",
        check=_name_pattern,
        source="[P]; the upper bound as in E2",
        breaks=request(user("hello"), assistant(call("t1", "look up")), user(result("t1"))),
        passes=request(user("hello"), assistant(call("t1", "look_up")), user(result("t1"))),
    ),
    Rule(
        id="D9b",
        says="the name in a tool_use has at most 64 characters",
        check=_name_short,
        source="[P] shows {1,64}; server texts of 2026 on tool definitions show {1,128}",
        breaks=request(user("hello"), assistant(call("t1", "n" * 65)), user(result("t1"))),
        passes=request(user("hello"), assistant(call("t1", "n" * 64)), user(result("t1"))),
        disputed=True,
    ),
    Rule(
        id="D10",
        says="a tool_result names its call; its content may be left out",
        check=_result_names_call,
        source="[P]; [D] agents-and-tools/tool-use/handle-tool-calls",
        breaks=request(user("hello"), assistant("hi"), user(without(result("t1"), "tool_use_id"))),
        passes=request(user("hello"), assistant(call("t1")), user(without(result("t1"), "content"))),
    ),
    Rule(
        id="D11",
        says="the content of a tool_result is a string, or text, images, documents, search results or references",
        check=_result_content,
        source="[D] agents-and-tools/tool-use/handle-tool-calls; [S] tool_result_block_param.py",
        breaks=request(user("hello"), assistant(call("t1")), user(result("t1", [call("t2")]))),
        passes=request(user("hello"), assistant(call("t1")), user(result("t1", [text("t2"), IMAGE]))),
    ),
    Rule(
        id="D12",
        says="with is_error, all content of a tool_result is text",
        check=_error_is_text,
        source="[P] many",
        breaks=request(user("hello"), assistant(call("t1")), user(result("t1", [text("no"), IMAGE], is_error=True))),
        passes=request(user("hello"), assistant(call("t1")), user(result("t1", [text("no")], is_error=True))),
    ),
    Rule(
        id="D13",
        says="with is_error, the content of a tool_result is not empty",
        check=_error_says_something,
        source="[I] bytedance/trae-agent#231",
        breaks=request(user("hello"), assistant(call("t1")), user(result("t1", "", is_error=True))),
        passes=request(user("hello"), assistant(call("t1")), user(result("t1", "no", is_error=True))),
    ),
    Rule(
        id="D14",
        says="a tool_result holds no blank text block and no empty string",
        check=_result_not_blank,
        source="[I] awsl-project/maxx#257; contradicted for Bedrock Converse; the bare empty string is told both ways",
        breaks=request(user("hello"), assistant(call("t1")), user(result("t1", [text("")]))),
        passes=request(user("hello"), assistant(call("t1")), user(result("t1", [text("(no output)")]))),
        disputed=True,
    ),
    Rule(
        id="D16",
        says="a history with calls or results comes with tools",
        check=_tools_defined,
        source="the server's text, quoted in about eight repositories up to 2026; no docs page",
        breaks=without(request(user("hello"), assistant(call("t1")), user(result("t1"))), "tools"),
        passes=request(user("hello"), assistant(call("t1")), user(result("t1"))),
    ),
    Rule(
        id="D17",
        says="the result of a toolset's member echoes toolset_name and holds text and images only",
        check=_toolset,
        source="[D] agents-and-tools/tool-use/handle-tool-calls; for browser_state [S] browser_state_block_param.py",
        breaks=request(
            user("hello"),
            assistant(call("t1", "screenshot", toolset_name="computer")),
            user(result("t1", [IMAGE])),
        ),
        passes=request(
            user("hello"),
            assistant(call("t1", "screenshot", toolset_name="computer")),
            user(result("t1", [IMAGE], toolset_name="computer")),
        ),
    ),
    Rule(
        id="D18",
        says="the calls of one turn stand in one message, and so do their results",
        check=_one_message,
        source="[D] says both 'together in the next user message' and that messages are merged; refused according to"
        " [I] MoonshotAI/kosong#45, pydantic-ai#653, accepted according to agentscope#1892",
        breaks=request(user("hello"), _PARALLEL, user(result("t1")), user(result("t2"))),
        passes=request(user("hello"), _PARALLEL, user(result("t2"), result("t1"))),
        disputed=True,
    ),
)
