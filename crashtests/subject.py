"""A subject: a harness under test, seen from the campaign. The interface that ours implements like any other.

A subject is one class with one method that runs inside a life, `live`, and a few that the judge uses outside. The
suite owns the tools and the model; a subject wires them to the harness as its documentation says, starts or resumes
it, and says how it ended. Crash points of its own are passed through `life.point(label)` and listed in `labels`.
"""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from crashtests.kinds import BLOCKS, FIRST_ASKS, LIMIT, PAUSE, TOOL_KINDS
from crashtests.schedule import Hindrance, Kill, Schedule
from crashtests.scripted import ScriptedModel
from crashtests.subjects import SUBJECTS
from crashtests.world import AFTER_EFFECT, BEFORE_EFFECT, WorldTool

Status = Literal["done", "stopped", "refused", "missing", "raised"]


class SubjectError(Exception):
    """The subject cannot be found or loaded, or what it needs is not installed. The message names it and says why."""


@dataclass(frozen=True, slots=True)
class Life:
    """What one life has to work with. `resume`: go on with what `state_dir` holds; otherwise start `task` there.

    `server_tools`: definitions of tools that the API runs itself, to be sent with the others.
    """

    state_dir: Path
    resume: bool
    task: str
    schedule: Schedule
    model: ScriptedModel
    tools: list[WorldTool]
    server_tools: list[dict[str, Any]]
    point: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a life that was not killed ended, as the harness says.

    "done"; "stopped": before the end, a resume may go on; "refused": what is on disk was not accepted; "missing": there
    is nothing to resume; "raised": an exception left `live`, which the suite says for it. `told`: what the *caller* was
    told about calls whose state is unknown, if anything. `result`: what it was told of the run, by the names of
    `Scene`, and as "unknowns" the ids of the calls whose state is unknown; empty if the harness says nothing of it.
    """

    status: Status
    reason: str = ""
    told: str = ""
    result: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Scene:
    """What is durable between two lives, as far as the subject can say: None where it cannot.

    `ledger`: what is recorded of each call, "started" or "finished", by `tool_use_id`. `set_aside`: how many earlier
    runs are kept whole, where this one was started over one.
    """

    messages: list[dict[str, Any]]
    pending: tuple[str, ...] | None = None
    turns: int | None = None
    tokens_used: int | None = None
    status: str | None = None
    answer: str | None = None
    ledger: Mapping[str, str] | None = None
    set_aside: int | None = None


class Subject(ABC):
    """A harness under test."""

    name: ClassVar[str]
    strict: ClassVar[bool] = False
    """Whether the disputed rules of the API bind it too."""
    stores: ClassVar[tuple[str, ...]] = ("json",)
    """The stores of a schedule that mean something to it; one that has none of its own ignores the word."""
    protocols: ClassVar[tuple[bool, ...]] = (True,)
    """With started marks, without, or both, likewise."""
    understands: ClassVar[frozenset[str]] = frozenset((*TOOL_KINDS, *BLOCKS, *FIRST_ASKS, PAUSE))
    """The tools and blocks (kinds.py) that it is meant to take: the rest is not drawn, so not held against it."""
    limits_turns: ClassVar[bool] = False
    """Whether a start can be told how many turns to take at most (`schedule.turns_max`), and a resume holds to it."""
    moments: ClassVar[tuple[Kill, ...]] = (Kill(BEFORE_EFFECT), Kill(AFTER_EFFECT))
    """Where a first kill is worth a second one at every crash point of the resume."""
    model_points: ClassVar[bool] = True
    """Whether to pass the suite's crash points at the edges of the harness (model asked, model answered, tool
    returned): not for a harness that has its own there."""
    environment: ClassVar[str | None] = None
    """The packages it needs besides the suite's own (environments.py); its lives then run in that interpreter."""
    persistence: ClassVar[Mapping[str, str]] = {}
    """Functions of its framework to be killed before and after, by a short name: `module:Class.method`."""
    documents: ClassVar[Mapping[str, str]] = {}
    """What its documentation says that it does not promise, by guarantee, with the address: shown beside a verdict."""
    unjudged: ClassVar[Mapping[str, str]] = {}
    """Guarantees that cannot be judged of it, each with the reason."""
    packages: ClassVar[tuple[str, ...]] = ()
    """The packages that it is made of, whose versions are reported; none: all that its environment names."""
    names_steps: ClassVar[bool] = False
    """Whether its tools cannot learn the id of their call: then the input names the step (`WorldTool.run_step`)."""
    races: ClassVar[bool] = False
    """Whether it saves on threads or in processes of its own, so that what a kill leaves can be a matter of chance."""
    parallel: ClassVar[bool] = False
    """Whether it runs the calls of one turn on threads of their own, so that their order is a matter of chance."""
    starts_processes: ClassVar[bool] = False
    """Whether its framework runs a process of its own: the matrix then also kills the host alone (`label:n@host`)."""
    delayed: ClassVar[tuple[Kill, ...]] = ()
    """Crash points behind which code runs that cannot be reached: the matrix then also kills at delays after them."""
    slow: ClassVar[bool] = False
    """Whether a life takes seconds: the matrix then runs fewer scripts, and each once."""
    life_timeout_s: ClassVar[float] = 10.0
    """What a life may take, by the wall clock."""
    warm_ups: ClassVar[int] = 0
    """How many lives may run in the server before it forks: only for a harness that keeps nothing between runs."""
    settles_exactly: ClassVar[bool] = False
    """Whether it promises the reconcile table of the reference harness, so that each settlement is foretold."""

    hindrances: ClassVar[frozenset[str]] = frozenset()
    """What it promises to refuse (`schedule.HINDRANCES`), where `hinder` can bring it about."""

    @property
    def power_stores(self) -> tuple[str, ...]:
        """The stores on which a loss of power can be simulated: all its syncs are seen there (powerloss/watch.py)."""
        return ()

    def takes(self, schedule: Schedule) -> bool:
        """Whether it is meant to take all that the model says in this script, its end, and what hinders its lives."""
        if schedule.end == LIMIT and not self.limits_turns:
            return False
        if not {kill.how for kill in schedule.kills if isinstance(kill, Hindrance)} <= self.hindrances:
            return False
        return {word for turn in schedule.turns for word in (*turn.beside, *turn.calls)} <= self.understands

    def labels(self, schedule: Schedule) -> Mapping[str, str]:
        """Crash points of its own under these options, with what each means."""
        return {}

    def prepare(self) -> None:  # noqa: B027  # optional: most subjects import at the top
        """Import what a life needs; called once, before the first life, in the process that forks them."""

    @abstractmethod
    def live(self, life: Life) -> Ending:
        """Start or resume the harness and run it to its end. Runs inside a life."""

    def state_key(self, state_dir: Path) -> str | None:
        """Equal for two states from which this harness must go on alike; None if that cannot be told (reuse.py)."""
        return None

    def hinder(self, how: str, state_dir: Path) -> AbstractContextManager[object]:
        """Bring one of its `hindrances` about in a saved run, for as long as the context lasts; the suite keeps a copy.

        Called outside of the lives, where everything is as the life before left it.
        """
        raise NotImplementedError(f"subject {self.name} cannot be hindered by {how!r}")

    def scene(self, state_dir: Path) -> Scene | None:
        """What is durable in `state_dir`, changing nothing; None if there is nothing or it cannot be read."""
        return None


def load_subject(spec: str) -> Subject:
    """The subject `package.module:Class`, `path/to/file.py:Class`, or one of `SUBJECTS` by name. Raises `SubjectError`.

    It is not said whether the packages that it needs are there.
    """
    where, _, name = SUBJECTS.get(spec, spec).rpartition(":")
    if not where or not name:
        raise SubjectError(
            f"subject {spec!r} is not of the form path/to/file.py:Class or package.module:Class, and none of those "
            f"that come with the suite (python -m crashtests subjects lists them)"
        )
    try:
        module = _import_file(where) if where.endswith(".py") else importlib.import_module(where)
        subject = getattr(module, name)()
    except (Exception, SystemExit) as error:
        raise SubjectError(f"subject {spec!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(subject, Subject):
        raise SubjectError(f"subject {spec!r} is a {type(subject).__name__}, not a crashtests.subject.Subject")
    return subject


def _import_file(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
