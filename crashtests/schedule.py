"""A schedule: a script, options, and the lives with where each dies. Pure data, and one readable line of text.

    v1 json marks [read mail][thinking pay] end > after-tool:2 > before-verify:1

reads: version 1 of this form; json store with started marks; a first turn that calls `read` and `mail`, a second with
a thinking block that calls `pay`; the closing response; the first life is killed when it passes `after-tool` for the
second time, the second (a resume) at its first `before-verify`; then it is resumed until it ends. `over` after the
options: the run is started over an earlier, unfinished one. `-` in place of a kill: that life is not killed. `~damaged`
in its place: that life is a resume from a state that somebody has damaged, which it must refuse; then the state is as
it was, and the run goes on.
`after-tool:2!` in place of `after-tool:2`: not the process alone dies there, the whole machine loses power (`LOSSES`).
`after-tool:2+40`: it dies 40 ms later, wherever it is by then; that is a race, so no campaign draws it.
`after-tool:2@host`: it dies alone, and what it had started lives on; otherwise that dies with it.

The words come from kinds.py. The form does not depend on Hypothesis: a line kept today can be replayed for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from crashtests.kinds import BLOCKS, ENDS, FIRST_ASKS, LIMIT, PAUSE, TOOL_KINDS

VERSION = "v1"
STORES = ("json", "sqlite")
CALLS_MAX = 4
# What may stand in the way of a resume, which must then refuse: of the state on disk, or that a live process holds it.
HINDRANCES = ("damaged", "incomplete", "foreign", "version", "held")
# Behind a kill: of the host alone, the process that the harness runs in.
ALONE = "@host"
# As a kill's label: `any:7` dies at the 7th crash point passed, whichever it is. What happened then has its real label.
ANY = "any"

# What a kill takes along, the simplest first. SIGKILL leaves what the kernel has been given; a loss of power only what
# was synced for certain, and of the rest some part or other. These are the extremes of it (powerloss/).
LOSSES = {
    "": "nothing: a process was killed",
    "!": "all that was not synced, contents and names",
    "!data": "contents that were not synced (names got through)",
    "!torn": "the second half of contents that were not synced (names got through)",
}


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
    """Die at the n-th pass of `label` in this life; `loss`: what is lost with it, a key of `LOSSES`.

    `delay_ms`: so much later, 0 for at once; `alone`: what the process has started lives on.
    """

    label: str
    n: int = 1
    loss: str = ""
    delay_ms: int = 0
    alone: bool = False

    def __str__(self) -> str:
        delay = f"+{self.delay_ms}" if self.delay_ms else ""
        return f"{self.label}:{self.n}{delay}{self.loss}{ALONE if self.alone else ''}"


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Resume with something in the way (`HINDRANCES`): a life that must refuse and change nothing."""

    how: str

    def __str__(self) -> str:
        return f"~{self.how}"


# How a life is planned: killed, hindered, or left alone.
Plan = Kill | Hindrance | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """`kills[i]` is where life i dies, or what hinders it, None if it is left alone, as all lives after them are."""

    turns: tuple[Turn, ...]
    end: str = "end"
    store: str = "json"
    marks: bool = True
    over: bool = False
    kills: tuple[Plan, ...] = ()

    def __str__(self) -> str:
        options = [VERSION, self.store, "marks" if self.marks else "no-marks", *(["over"] if self.over else [])]
        script = "".join(map(str, self.turns))
        lives = "".join(f" > {kill or '-'}" for kill in self.kills)
        return f"{' '.join(options)}{' ' if script else ''}{script} {self.end}{lives}"

    @property
    def without_kills(self) -> Schedule:
        """The uninterrupted run of the same script."""
        return replace(self, kills=(), over=False)

    @property
    def turns_max(self) -> int | None:
        """How many turns the run may take; None if it is not told, or if the script has none to count."""
        return sum(turn != PAUSED for turn in self.turns) or None if self.end == LIMIT else None

    @property
    def deaths(self) -> list[Kill]:
        """Its kills, without the lives that are hindered or left alone."""
        return [kill for kill in self.kills if isinstance(kill, Kill)]

    @property
    def without_losses(self) -> Schedule:
        """With the process alone killed where power is lost."""
        kills = (replace(kill, loss="") if isinstance(kill, Kill) else kill for kill in self.kills)
        return replace(self, kills=tuple(kills))

    def canonical(self) -> Schedule:
        """Without the lives at the end that are not killed: they are there anyway."""
        kills = self.kills
        while kills and kills[-1] is None:
            kills = kills[:-1]
        return replace(self, kills=kills)

    def loses_power_from(self, place: int) -> bool:
        """Whether the life at `place` in the plan, or one after it, is to lose power."""
        return any(isinstance(kill, Kill) and kill.loss for kill in self.kills[place:])

    def size(self) -> tuple[int, ...]:
        """For comparing: fewest crashes, then turns, then calls, then simplest tools, then plainest all the rest."""
        calls = [call for turn in self.turns for call in turn.calls]
        order = list(TOOL_KINDS)
        beside = sum(len(turn.beside) for turn in self.turns)
        odd = (self.store != "json") + (not self.marks) + self.over + (self.end != "end") + beside
        killed = self.deaths
        hindered = sum(isinstance(kill, Hindrance) for kill in self.kills)
        odd += sum(list(LOSSES).index(kill.loss) + kill.alone + (kill.delay_ms > 0) for kill in killed)
        tools = sum(order.index(call) for call in calls)
        crashes = len(killed) + hindered + sum(TOOL_KINDS[call].ends is not None for call in calls)
        passes = sum(kill.n for kill in killed)
        return (crashes, len(self.turns), len(calls), tools, odd, passes, len(self.kills))

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
_LABEL = re.compile(r"[a-zA-Z][\w.-]*")
_KILL = re.compile(
    rf"(?P<label>{_LABEL.pattern}):(?P<n>[1-9][0-9]{{0,5}})"
    rf"(?:\+(?P<delay>[1-9][0-9]{{0,4}}))?(?P<loss>(?:![a-z]*)?)(?P<alone>(?:{ALONE})?)"
)


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
        kills=tuple(_plan(kill) for kill in match["kills"].split(" > ")[1:]),
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


def _plan(text: str) -> Plan:
    if text == "-":
        return None
    if text.startswith("~"):
        _allowed("hindrance", text[1:], HINDRANCES)
        return Hindrance(text[1:])
    return parse_kill(text)


def is_label(label: object) -> bool:
    """Whether a crash point may bear this name: then it can stand in a schedule."""
    return isinstance(label, str) and _LABEL.fullmatch(label) is not None and label != ANY


def parse_kill(text: str) -> Kill:
    """The kill that `label:n` stands for, with what is behind it: `+40`, `!data`, `@host`. Raises `ScheduleError`."""
    match = _KILL.fullmatch(text)
    if match is None:
        raise ScheduleError(
            f"kill {text!r} is not label:n, such as after-tool:1, nor ~{HINDRANCES[0]} or the like for a resume with a "
            "hindrance, nor - for a life that is left alone"
        )
    _allowed("loss of power", match["loss"], LOSSES)
    delay_ms, alone = int(match["delay"] or 0), bool(match["alone"])
    if match["loss"] and (delay_ms or alone):
        raise ScheduleError(f"kill {text!r} loses power, which takes everything at once: neither +ms nor {ALONE} fits")
    return Kill(match["label"], int(match["n"]), match["loss"], delay_ms, alone)


def _allowed(what: str, word: str, allowed: object) -> None:
    words = list(allowed)  # type: ignore[call-overload]  # any collection of words
    if word not in words:
        raise ScheduleError(f"{what} {word!r} is none of: {', '.join(filter(None, words))}")
