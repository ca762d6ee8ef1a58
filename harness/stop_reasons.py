"""What each `stop_reason` of a response means for the run (docs: build-with-claude/handling-stop-reasons).

A reason that is not in the table ends the life without running anything: the API may add reasons at any time, and a
turn that was not understood must not be executed. A test compares the table with the SDK's own list.
"""

from __future__ import annotations

from enum import StrEnum


class Move(StrEnum):
    """What to do with a response."""

    RUN_TOOLS = "run_tools"
    """Save point A, settle the calls, save point B."""
    FINISH = "finish"
    """The final answer."""
    SEND_BACK = "send_back"
    """A paused server-tool turn: save it and send the conversation back as it is."""
    STOP = "stop"
    """Cut short: keep it beside the messages and stop; a resume asks again. Its last block may be half a call."""
    REFUSAL = "refusal"
    """The model refused: keep it beside the messages and stop for good; asking again blindly is wrong."""


STOP_REASONS = {
    "tool_use": Move.RUN_TOOLS,
    "end_turn": Move.FINISH,
    "stop_sequence": Move.FINISH,
    "pause_turn": Move.SEND_BACK,
    "max_tokens": Move.STOP,
    "model_context_window_exceeded": Move.STOP,
    "refusal": Move.REFUSAL,
}

# A server-tool loop that pauses this often in a row is not going anywhere (the API's own limit per pause is 10).
PAUSES_MAX = 10
