"""The words a script is made of: tool kinds, decorations of a turn, ways a script ends. Pure data.

A script names tools by kind; what each kind does to the world is written here once, and read by the world that runs
it, by the judge that expects it, and by the generators that draw it. Kinds stand in order of simplicity: shrinking
moves towards the front. To add a tool kind: add its row. The sweep takes the kinds in `SWEPT`, the machine all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

EffectClass = Literal["read_only", "idempotent", "side_effect"]


@dataclass(frozen=True, slots=True)
class ToolKind:
    """What a tool of this kind is and does.

    `output`: what it returns, and `shown` the text in which our harness shows its outcome. `verify`: None, or what
    its verify does: "truth" (looks into the world), "cannot_tell", "raises". `raises`: "before" or "after" its effect,
    with an ordinary exception. `ends`: the BaseException with which it ends the process at its first entry in the
    world, after its effect if `ends_after`. `known`: False for a name that the model makes up.
    """

    name: str
    effect: EffectClass
    output: Any = "ok"
    shown: str = "ok"
    verify: Literal["truth", "cannot_tell", "raises"] | None = None
    raises: Literal["before", "after"] | None = None
    ends: Literal["SystemExit", "KeyboardInterrupt"] | None = None
    ends_after: bool = False
    known: bool = True


_BIG = "0123456789abcdef" * 4096
_KINDS = [
    ToolKind("read", "read_only", "the notes", "the notes"),
    ToolKind("put", "idempotent", "put", "put"),
    ToolKind("pay", "side_effect", "paid", "paid"),
    ToolKind("mail", "side_effect", "sent", "sent", verify="truth"),
    ToolKind("guess", "side_effect", "guessed", "guessed", verify="cannot_tell"),
    ToolKind("blind", "side_effect", "done", "done", verify="raises"),
    ToolKind("ghost", "read_only", known=False),
    ToolKind("deny", "side_effect", shown="ValueError: deny failed", raises="before"),
    ToolKind("bounce", "side_effect", shown="ValueError: bounce failed", raises="after"),
    ToolKind("lapse", "side_effect", shown="ValueError: lapse failed", verify="truth", raises="after"),
    ToolKind("quit", "side_effect", "quit", "quit", ends="SystemExit"),
    ToolKind("stop", "side_effect", "stop", "stop", ends="KeyboardInterrupt", ends_after=True),
    ToolKind("empty", "side_effect", "", "(no output)"),
    ToolKind("none", "side_effect", None, "(no output)"),
    ToolKind("zero", "side_effect", 0, "0"),
    ToolKind("dict", "side_effect", {}, "{}"),
    ToolKind("bytes", "side_effect", b"\xff\x00raw", "\\xff\x00raw"),
    ToolKind("nan", "side_effect", float("nan"), "NaN"),
    ToolKind("surrogate", "side_effect", " naïve \udcb2 漢\n", " naïve \\udcb2 漢\n"),
    ToolKind("big", "side_effect", _BIG, _BIG),
    ToolKind("blocks", "side_effect", [{"type": "text", "text": "a page"}], "a page"),
]
TOOL_KINDS: dict[str, ToolKind] = {kind.name: kind for kind in _KINDS}

# One of each effect class, with and without a verify: the classes that reconcile tells apart.
SWEPT = ("read", "put", "pay", "mail")

# What may stand in a turn beside its calls. Blocks come first in the turn; a "first ask" decoration changes what the
# model answers the first time it is asked for this turn (asked again, it answers properly).
BLOCKS = ("thinking", "redacted", "server", "blank", "text")
FIRST_ASKS = {
    "!max_tokens": "max_tokens",
    "!window": "model_context_window_exceeded",
    "!unheard": "unheard_of",
    "!unended": None,
    "!same_id": "tool_use",
    "!early": "end_turn",
    "!old_id": "tool_use",
}
PAUSE = "pause"  # a turn of its own: a paused server-tool turn

# The definition of the tool that the API itself runs, for turns that are paused or hold server blocks.
WEB_SEARCH = {"type": "web_search_20250305", "name": "web_search"}

# The end of a run that is told to take as many turns as its script has. The closing response is never asked for.
LIMIT = "limit"

# How a script ends: the stop reason of the closing response, and whether it has a text.
ENDS: dict[str, tuple[str, bool]] = {
    "end": ("end_turn", True),
    "silent": ("end_turn", False),
    "sequence": ("stop_sequence", True),
    "refusal": ("refusal", True),
    LIMIT: ("end_turn", True),
}
