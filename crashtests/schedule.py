"""A schedule: a script, options, and the lives with where each dies. Pure data, and one readable line of text.

    v1 json marks [read mail][thinking pay] end > after-tool:2 > before-verify:1

reads: version 1 of this form; json store with started marks; a first turn that calls `read` and `mail`, a second with
a thinking block that calls `pay`; the closing response; the first life is killed when it passes `after-tool` for the
second time, the second (a resume) at its first `before-verify`; then it is resumed until it ends. `over` after the
options: the run is started over an earlier, unfinished one. `-` in place of a kill: that life is not killed.

The words come from kinds.py. The form does not depend on Hypothesis: a line kept today can be replayed for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from crashtests.kinds import BLOCKS, ENDS, FIRST_ASKS, PAUSE, TOOL_KINDS

VERSION = "v1"
STORES = ("json", "sqlite")
CALLS_MAX = 4
# As a kill's label: `any:7` dies at the 7th crash point passed, whichever it is. What happened then has its real label.
ANY = "any"


class ScheduleError(ValueError):
    """The text is not a schedule. The message shows where, and what is allowed there."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One response that the model gives: its calls in order, and what stands beside them (see kinds.py)."""

    calls: tuple[str, ...]
    beside: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"[{' '.join(self.beside + self.calls)}]"


PAUSED = Turn((), (PAUSE,))


@dataclass(frozen=True, slots=True)
class Kill:
    """Die at the n-th pass of `label` in this life."""

    label: str
    n: int = 1

    def __str__(self) -> str:
        return f"{self.label}:{self.n}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """`kills[i]` is where life i dies, None if it is left alone; the lives after them are left alone as well."""

    turns: tuple[Turn, ...]
    end: str = "end"
    store: str = "json"
    marks: bool = True
    over: bool = False
    kills: tuple[Kill | None, ...] = ()

    def __str__(self) -> str:
        options = [VERSION, self.store, "marks" if self.marks else "no-marks", *(["over"] if self.over else [])]
        script = "".join(map(str, self.turns))
        lives = "".join(f" > {kill or '-'}" for kill in self.kills)
        return f"{' '.join(options)}{' ' if script else ''}{script} {self.end}{lives}"

    @property
    def without_kills(self) -> Schedule:
        """The uninterrupted run of the same script."""
        return replace(self, kills=(), over=False)

    def canonical(self) -> Schedule:
        """Without the lives at the end that are not killed: they are there anyway."""
        kills = self.kills
        while kills and kills[-1] is None:
            kills = kills[:-1]
        return replace(self, kills=kills)

    def size(self) -> tuple[int, ...]:
        """For comparing: fewest crashes, then turns, then calls, then simplest tools, then plainest all the rest."""
        calls = [call for turn in self.turns for call in turn.calls]
        order = list(TOOL_KINDS)
        beside = sum(len(turn.beside) for turn in self.turns)
        odd = (self.store != "json") + (not self.marks) + self.over + (self.end != "end") + beside
        killed = [kill for kill in self.kills if kill is not None]
        tools = sum(order.index(call) for call in calls)
        crashes = len(killed) + sum(TOOL_KINDS[call].ends is not None for call in calls)
        return (crashes, len(self.turns), len(calls), tools, odd, sum(kill.n for kill in killed), len(self.kills))

    @property
    def ending_calls(self) -> int:
        """How many calls end their process."""
        return sum(TOOL_KINDS[call].ends is not None for turn in self.turns for call in turn.calls)

    def tool_kinds(self) -> Iterator[str]:
        """The kinds that the script calls, each once."""
        yield from dict.fromkeys(call for turn in self.turns for call in turn.calls)


_LINE = re.compile(
    r"(?P<version>\S+) (?P<store>\S+) (?P<marks>\S+)(?P<over> over)?"
    r"(?: (?P<turns>(?:\[[^\[\]]*\])+))? (?P<end>\S+)(?P<kills>(?: > \S+)*)"
)
_KILL = re.compile(r"(?P<label>[a-zA-Z][\w.-]*):(?P<n>[1-9][0-9]{0,5})")


def parse(text: str) -> Schedule:
    """The schedule that a line stands for; `parse(str(schedule)) == schedule`. Raises `ScheduleError`."""
    match = _LINE.fullmatch(" ".join(text.split()))
    if match is None:
        raise ScheduleError(f"{text!r} is not a schedule; one looks like: v1 json marks [pay] end > after-tool:1")
    _allowed("version", match["version"], [VERSION])
    _allowed("store", match["store"], STORES)
    _allowed("protocol", match["marks"], ["marks", "no-marks"])
    _allowed("end", match["end"], ENDS)
    return Schedule(
        turns=tuple(_turn(words) for words in re.findall(r"\[([^\[\]]*)\]", match["turns"] or "")),
        end=match["end"],
        store=match["store"],
        marks=match["marks"] == "marks",
        over=match["over"] is not None,
        kills=tuple(parse_kill(kill) for kill in match["kills"].split(" > ")[1:]),
    )


def _turn(text: str) -> Turn:
    words = text.split()
    if words == [PAUSE]:
        return PAUSED
    beside = tuple(word for word in words if word in BLOCKS or word in FIRST_ASKS)
    calls = tuple(words[len(beside) :])
    for call in calls:
        _allowed("call", call, TOOL_KINDS)
    if not 1 <= len(calls) <= CALLS_MAX:
        raise ScheduleError(f"turn [{text}] makes {len(calls)} calls; allowed are 1 to {CALLS_MAX}, or [{PAUSE}]")
    return Turn(calls, beside)


def parse_kill(text: str) -> Kill | None:
    """Where a life dies, None for `-`. Raises `ScheduleError`."""
    if text == "-":
        return None
    match = _KILL.fullmatch(text)
    if match is None:
        raise ScheduleError(f"kill {text!r} is not label:n, such as after-tool:1, or - for a life that is left alone")
    return Kill(match["label"], int(match["n"]))


def _allowed(what: str, word: str, allowed: object) -> None:
    words = list(allowed)  # type: ignore[call-overload]  # any collection of words
    if word not in words:
        raise ScheduleError(f"{what} {word!r} is none of: {', '.join(words)}")
