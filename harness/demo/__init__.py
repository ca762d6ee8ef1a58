"""The task that ships with the harness: turn `sales-notes.txt` into a short report in `report.txt`.

Two tools only read; `write_report` changes the world, and repeating it would show: it *appends* to `report.txt` in
the current directory, under a heading that holds its `tool_use_id`. Its `verify` looks for that heading. It can write
no other file. Offline, the model is `script.json`, whose calls get fresh ids on every ask, as from the API.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

from harness.model import ScriptedModel
from harness.tool import CANNOT_TELL, NOT_DONE, Done, Effect, Tool, Verdict, current_tool_use_id

TASK = (
    "Read the sales notes, count their words, and write a short report of the week with write_report: "
    "what was won, what was lost, what is open, and how many words of notes it sums up. Write the report exactly once."
)
MODEL = "demonstration"
REPORT = Path("report.txt")
_NOTES = Path(__file__).with_name("sales-notes.txt")
_END = "(end of report)\n"


def model() -> ScriptedModel:
    """The scripted model of the demonstration."""
    script = Path(__file__).with_name("script.json")
    return ScriptedModel.from_file(script, name=MODEL, mint_id=lambda: f"toolu_{uuid.uuid4().hex}")


def read_notes(input: dict[str, Any]) -> str:
    return _NOTES.read_text(encoding="utf-8")


def count_words(input: dict[str, Any]) -> dict[str, int]:
    return {"words": len(_NOTES.read_text(encoding="utf-8").split())}


def write_report(input: dict[str, Any]) -> str:
    text = str(input["text"])
    section = f"{_heading(current_tool_use_id())}{text}\n{_END}"
    fd = os.open(REPORT, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, section.encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    return _wrote(text)


def verify_report(input: dict[str, Any], tool_use_id: str) -> Done | Verdict:
    """Is this call's report in the file, whole? Half of one (a full disk) is for a person to look at."""
    written = REPORT.read_text(encoding="utf-8") if REPORT.exists() else ""
    _, heading, rest = written.partition(_heading(tool_use_id))
    if not heading:
        return NOT_DONE
    text = str(input["text"])
    return Done(_wrote(text)) if rest.startswith(f"{text}\n{_END}") else CANNOT_TELL


def _heading(tool_use_id: str) -> str:
    return f"Report of call {tool_use_id}\n"


def _wrote(text: str) -> str:
    return f"{REPORT}: {len(text.split())} words written"


_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
_TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "The whole report, plain text."}},
    "required": ["text"],
    "additionalProperties": False,
}

TOOLS = [
    Tool("read_notes", "Read the sales notes of the week.", _NOTHING, read_notes, effect=Effect.READ_ONLY),
    Tool("count_words", "Count the words of the sales notes.", _NOTHING, count_words, effect=Effect.READ_ONLY),
    Tool("write_report", "Add a report to report.txt.", _TEXT, write_report, verify=verify_report),
]
