"""Rules S: the tools that the API runs itself.

Not here: S4 (encrypted_content comes back unmodified) cannot be decided from the request alone; if a signed
thinking block stands after it, F3 notices.
"""

from __future__ import annotations

from collections.abc import Iterator

from crashtests.api.examples import assistant, call, found, request, result, search, tool, user, web_search
from crashtests.api.pairing import SERVER_ID
from crashtests.api.request import Block, Request
from crashtests.api.table import Rule
from crashtests.api.vocabulary import SERVER_RESULT_TYPES, SERVER_TOOL_OF


def _pending(request: Request) -> Iterator[tuple[int, Block]]:
    """The server calls without a result in their own turn, with the index of that turn."""
    if "server_tool_use" in request.blocks:
        for n, turn in enumerate(request.turns):
            calls = turn.of("server_tool_use") if turn.role == "assistant" else []
            answered = {
                str(block.data.get("tool_use_id")) for block in turn.blocks if block.type in SERVER_RESULT_TYPES
            }
            for block in calls:
                if str(block.data.get("id")) not in answered:
                    yield n, block


def _finished(request: Request) -> Iterator[str]:
    """A server call may wait for its result while its turn is the last, or was cut short by a client call."""
    for n, block in _pending(request):
        later = [turn for turn in request.turns[n + 1 :] if turn.role == "assistant"]
        results = {str(b.data.get("tool_use_id")) for t in later for b in t.blocks if b.type in SERVER_RESULT_TYPES}
        mixed = bool(request.turns[n].calls)
        if n == len(request.turns) - 1 or (mixed and not later):
            continue
        if not mixed or str(block.data.get("id")) not in results:
            yield (
                f"{block.where}: `{block.data.get('name')}` call {block.data.get('id')!r} has no result,"
                " though its turn is finished"
            )


def _only_results(request: Request) -> Iterator[str]:
    for n, block in _pending(request):
        after = request.turns[n + 1] if n + 1 < len(request.turns) else None
        if after is not None and after.role == "user" and request.turns[n].calls:
            for other in after.blocks:
                if other.type != "tool_result":
                    yield (
                        f"{other.where}: a `{other.type}` block, but while server call {block.data.get('id')!r} is"
                        " pending the next user message holds only tool_result blocks"
                    )


def _tool_provided(request: Request) -> Iterator[str]:
    names = {str(entry.get("name")) for entry in request.tools}
    finished = {str(block.data.get("tool_use_id")) for block in request.of(*SERVER_RESULT_TYPES)}
    for _, block in _pending(request):
        name = str(block.data.get("name"))
        if SERVER_TOOL_OF.get(name, name) not in names and str(block.data.get("id")) not in finished:
            yield f"{block.where}: server call {block.data.get('id')!r} is pending, but no `{name}` tool was provided"


def _server_runs_it(request: Request) -> Iterator[str]:
    server_ids = {str(block.data.get("id")) for block in request.of("server_tool_use")}
    client_ids = {str(block.data.get("id")) for block in request.of("tool_use")}
    for block in request.of("tool_result"):
        call_id = str(block.data.get("tool_use_id"))
        if call_id in server_ids or (call_id.startswith(SERVER_ID) and call_id not in client_ids):
            yield f"{block.where}: {call_id!r} is a call of a server tool, a client cannot answer it"


def _server_pairs(request: Request) -> Iterator[str]:
    called: set[str] = set()
    for turn in request.turns if SERVER_RESULT_TYPES & request.blocks.keys() else ():
        for block in turn.blocks:
            if block.type == "server_tool_use":
                called.add(str(block.data.get("id")))
            elif block.type in SERVER_RESULT_TYPES and str(block.data.get("tool_use_id")) not in called:
                yield (
                    f"{block.where}: `tool_use_id` {block.data.get('tool_use_id')!r} in a `{block.type}` block names no"
                    " `server_tool_use` before it"
                )


def _server_once(request: Request) -> Iterator[str]:
    for kinds, key in ((("server_tool_use",), "id"), (tuple(SERVER_RESULT_TYPES), "tool_use_id")):
        seen: set[str] = set()
        for block in request.of(*kinds):
            call_id = str(block.data.get(key))
            if call_id in seen:
                yield f"{block.where}: a second `{block.type}` block for {call_id!r}"
            seen.add(call_id)


_TOOLS = [tool(), web_search()]

SERVER_TOOLS = (
    Rule(
        id="S1",
        says="in a finished turn, every server_tool_use has its result block",
        check=_finished,
        source="[D] agents-and-tools/tool-use/server-tools",
        breaks=request(user("hello"), assistant(search("s1"), "done"), user("go on"), tools=_TOOLS),
        passes=request(user("hello"), assistant(search("s1"), found("s1"), "done"), user("go on"), tools=_TOOLS),
    ),
    Rule(
        id="S2",
        says="while a server call waits for client calls, the next user message holds only their results",
        check=_only_results,
        source="[D] agents-and-tools/tool-use/server-tools",
        breaks=request(user("hello"), assistant(search("s1"), call("t1")), user(result("t1"), "go on"), tools=_TOOLS),
        passes=request(user("hello"), assistant(search("s1"), call("t1")), user(result("t1")), tools=_TOOLS),
    ),
    Rule(
        id="S2b",
        says="while a server call is pending, its tool is still provided",
        check=_tool_provided,
        source="[D] agents-and-tools/tool-use/server-tools",
        breaks=request(user("hello"), assistant(search("s1"), call("t1")), user(result("t1"))),
        passes=request(user("hello"), assistant(search("s1"), call("t1")), user(result("t1")), tools=_TOOLS),
    ),
    Rule(
        id="S3",
        says="no tool_result for the call of a server tool",
        check=_server_runs_it,
        source="[D] agents-and-tools/tool-use/tool-search-tool",
        breaks=request(
            user("hello"),
            assistant(search("srvtoolu_1"), found("srvtoolu_1")),
            user(result("srvtoolu_1")),
            tools=_TOOLS,
        ),
        passes=request(
            user("hello"), assistant(search("srvtoolu_1"), found("srvtoolu_1")), user("go on"), tools=_TOOLS
        ),
    ),
    Rule(
        id="S3b",
        says="the result of a server tool has its call somewhere before it",
        check=_server_pairs,
        source="[I] anthropics/claude-code#64383",
        breaks=request(user("hello"), assistant(found("s1"), "done"), user("go on"), tools=_TOOLS),
        passes=request(user("hello"), assistant(search("s1"), found("s1"), "done"), user("go on"), tools=_TOOLS),
    ),
    Rule(
        id="S3c",
        says="the calls of server tools are unique, and so are their results",
        check=_server_once,
        source="inferred from D5 and D6; no source speaks of server tools",
        breaks=request(user("hello"), assistant(search("s1"), found("s1"), found("s1")), user("go on"), tools=_TOOLS),
        passes=request(user("hello"), assistant(search("s1"), found("s1")), user("go on"), tools=_TOOLS),
        disputed=True,
    ),
)
