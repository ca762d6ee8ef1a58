"""Rules B: who speaks when.

Not here: B4 is no rule, neighbouring messages of one role are merged.
"""

from __future__ import annotations

from collections.abc import Iterator

from crashtests.api.examples import (
    MANUAL_MODEL,
    assistant,
    request,
    search,
    system,
    text,
    user,
    web_search,
)
from crashtests.api.request import Request, Turn
from crashtests.api.table import Rule
from crashtests.api.vocabulary import ROLES, SERVER_RESULT_TYPES, entries, is_blank, model_line

PREFILL_GONE_SINCE = (4, 6)

_CITATION = {
    "type": "char_location",
    "cited_text": "a",
    "document_index": 0,
    "document_title": None,
    "start_char_index": 0,
    "end_char_index": 1,
}
_DOCUMENT = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}}


def _some_message(request: Request) -> Iterator[str]:
    if request.body.get("messages") in ([], ()):
        yield "messages: at least one message is required"


def _user_first(request: Request) -> Iterator[str]:
    if request.messages and request.messages[0].get("role") == "assistant":
        yield "messages.0: the first message has the role 'user', not 'assistant'"


def _known_roles(request: Request) -> Iterator[str]:
    for i, message in enumerate(request.messages):
        if "role" in message and message["role"] not in ROLES:
            yield f"messages.{i}.role: {message['role']!r} is not one of {', '.join(ROLES)}"


def _system_placed(request: Request) -> Iterator[str]:
    turns = request.turns
    for n, turn in enumerate(turns):
        if turn.role != "system":
            continue
        if n == 0:
            yield "messages.0: a system message cannot be first, use the top-level `system`"
        elif not _may_precede_system(turns[n - 1]):
            yield f"messages: system message {_place(turn)} must follow a user turn or the result of a server tool"
        if n + 1 < len(turns) and turns[n + 1].role != "assistant":
            yield f"messages: system message {_place(turn)} must be last or stand before an assistant turn"
        for block in turn.blocks:
            if block.type != "text":
                yield f"{block.where}: a system message holds text, not {block.type!r}"


def _may_precede_system(turn: Turn) -> bool:
    if turn.role == "assistant":
        return bool(turn.blocks) and turn.blocks[-1].type in SERVER_RESULT_TYPES
    return turn.role == "user"


def _place(turn: Turn) -> str:
    return str(turn.blocks[0].i) if turn.blocks else "without content"


def _prefill(request: Request) -> Iterator[str]:
    """Whether a trailing assistant turn is a pause being resumed cannot be seen for certain from the request.

    Only server tools pause a turn, and a pause never leaves a client call waiting; so the turn passes if a server
    tool called or answered in it and no client tool did. A caller who knows of the pause says so with `paused`.
    """
    last = request.turns[-1] if request.turns else None
    line = model_line(request.body.get("model"))
    if last is None or last.role != "assistant" or line is None or line[1] < PREFILL_GONE_SINCE:
        return
    served = any(block.type == "server_tool_use" or block.type in SERVER_RESULT_TYPES for block in last.blocks)
    if last.calls or not (request.paused or served):
        yield f"messages.{len(request.messages) - 1}: the conversation must end with a user message"


def _prefill_trailing_space(request: Request) -> Iterator[str]:
    last = request.turns[-1] if request.turns else None
    line = model_line(request.body.get("model"))
    if last is None or not last.blocks or last.role != "assistant" or line is None or line[1] >= PREFILL_GONE_SINCE:
        return
    words = last.blocks[-1].data.get("text")
    if isinstance(words, str) and words.strip() and words != words.rstrip():
        yield f"{last.blocks[-1].where}: the final assistant content ends with white space: {words[-10:]!r}"


def _document_in_assistant(request: Request) -> Iterator[str]:
    for block in request.of("document"):
        if block.role == "assistant":
            yield f"{block.where}: a `document` block cannot stand in an assistant message"


def _user_citations(request: Request) -> Iterator[str]:
    for block in request.of("text", "search_result", "tool_result") if request.mentions("citations") else ():
        if block.role != "user":
            continue
        if block.type == "text" and block.data.get("citations"):
            yield f"{block.where}.citations: must be empty in a user message"
        for nested in entries(block.data.get("content")):
            for inner in [nested, *entries(nested.get("content"))]:
                if inner.get("type") == "text" and inner.get("citations"):
                    yield f"{block.where}: the text {inner.get('text')!r} inside has citations, in a user message"


def _system_prompt(request: Request) -> Iterator[str]:
    prompt = request.body.get("system")
    if "system" in request.body and not isinstance(prompt, (str, list)):
        yield f"system: a string or a list of text blocks, not {prompt!r}"
    if is_blank(prompt):
        yield f"system: {prompt!r} is blank"
    for i, block in enumerate(prompt if isinstance(prompt, list) else ()):
        if not isinstance(block, dict) or block.get("type") != "text" or not isinstance(block.get("text"), str):
            yield f"system.{i}: a text block is required, not {block!r}"
        elif is_blank(block["text"]):
            yield f"system.{i}.text: {block['text']!r} is blank"


ROLE_RULES = (
    Rule(
        id="B1",
        says="there is at least one message",
        check=_some_message,
        source="[R]",
        breaks=request() | {"messages": []},
        passes=request(),
    ),
    Rule(
        id="B2",
        says="the first message is the user's",
        check=_user_first,
        source="[I] of earlier API versions, and many validators",
        breaks=request(assistant("hello"), user("hello")),
        passes=request(user("hello"), assistant("hello"), user("go on")),
    ),
    Rule(
        id="B3",
        says="the roles are user, assistant and system",
        check=_known_roles,
        source="[S] MessageParam",
        breaks=request(user("hello"), {"role": "tool", "content": "seen"}),
        passes=request(user("hello"), {"role": "user", "content": "seen"}),
    ),
    Rule(
        id="B3b",
        says="a system message follows a user turn or a server tool's result, and is last or before an assistant turn",
        check=_system_placed,
        source="[D] build-with-claude/mid-conversation-system-messages; [P]",
        breaks=request(user("hello"), system("be brief"), user("go on")),
        passes=request(user("hello"), user("go on"), system("be brief")),
    ),
    Rule(
        id="B5",
        says="the last message is not the assistant's (prefill), unless a paused turn is being resumed (B5x)",
        check=_prefill,
        source="[D] api/errors; for the exception [D] build-with-claude/handling-stop-reasons",
        breaks=request(user("hello"), assistant("The answer is")),
        passes=request(user("hello"), assistant("Searching", search("s1")), tools=[web_search()]),
    ),
    Rule(
        id="B6",
        says="where prefill still exists (before Claude 4.6) it does not end with white space",
        check=_prefill_trailing_space,
        source="[I] tailcallhq/forgecode#1872, crewAIInc/crewAI#4538",
        breaks=request(user("hello"), assistant("The answer is "), model=MANUAL_MODEL),
        passes=request(user("hello"), assistant("The answer is"), model=MANUAL_MODEL),
    ),
    Rule(
        id="B7",
        says="no document block directly in an assistant message (API version 2026-10-21)",
        check=_document_in_assistant,
        source="[D] api/migration-2026-10-21",
        breaks=request(user("hello"), assistant(_DOCUMENT), user("go on")),
        passes=request(user("hello"), assistant("A document."), user(_DOCUMENT, "go on")),
    ),
    Rule(
        id="B8",
        says="no citations on text in a user message, nor inside its results (API version 2026-10-21)",
        check=_user_citations,
        source="[D] api/migration-2026-10-21",
        breaks=request(user(text("a", citations=[_CITATION]))),
        passes=request(user("hello"), assistant(text("a", citations=[_CITATION])), user(text("a", citations=[]))),
    ),
    Rule(
        id="B9",
        says="`system` is a string or text blocks, and not blank",
        check=_system_prompt,
        source="[P]",
        breaks=request(system=" \n"),
        passes=request(system="be brief"),
    ),
)
