"""One owner at a time, and a fresh start that loses nothing: the lock, and the setting aside of an earlier run.

Locks are held, and fresh starts killed, by real processes.
"""

from __future__ import annotations

import errno
import fcntl
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crashtests.unit import states
from crashtests.unit.bodies import asks, call, says
from crashtests.unit.lives import killed
from crashtests.unit.scenes import STORES, Scene
from crashtests.unit.states import as_json
from harness import (
    JsonStore,
    Result,
    SqliteStore,
    StateForeign,
    StateHeld,
    StateIncomplete,
    StateMissing,
    StateRefused,
    Store,
    crash,
)

MOVES = [(kind, label) for kind, labels in crash.SET_ASIDE_POINTS.items() for label in labels]
SCRIPT = [asks(call("t1"), call("t2")), says("Done.")]

_HOLDER = """
import sys, harness
with getattr(harness, sys.argv[1])(sys.argv[2]).owned(create=True):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_by_another_process(store: Store) -> Iterator[subprocess.Popen[str]]:
    """A live process that owns the directory."""
    command = [sys.executable, "-c", _HOLDER, type(store).__name__, str(store.directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        try:
            yield holder
        finally:
            holder.kill()


def test_a_second_owner_is_refused_until_the_first_is_killed(store: Store) -> None:
    """A live process keeps everyone else out; the lock dies with it, by SIGKILL too, and needs no cleaning up."""
    states.sample(store)
    with held_by_another_process(store) as holder:
        for create in (False, True):
            with (
                states.nothing_changes(store.directory),
                pytest.raises(StateHeld, match="a live process owns this run; wait for it to end") as refusal,
                store.owned(create=create),
            ):
                pytest.fail("owned by two")
            assert store.directory == refusal.value.path
        holder.send_signal(signal.SIGKILL)
        assert -signal.SIGKILL == holder.wait()

        with store.owned(create=False):
            assert 2 == store.load()[0].turns


def test_an_owner_that_leaves_lets_the_next_one_in(store: Store) -> None:
    """Within one process as well, there is one owner at a time."""
    with store.owned(create=True), pytest.raises(StateHeld), type(store)(store.directory).owned(create=False):
        pytest.fail("owned by two")
    with store.owned(create=False):
        pass


def test_a_file_system_without_locks_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that cannot be locked, as on some network file systems, is an error with a remedy."""

    def no_locks(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)

    with (
        pytest.raises(StateRefused, match="No locks available; use a directory on a file system that has them"),
        store.owned(create=True),
    ):
        pytest.fail("owned without a lock")


def interrupted(directory: Path, store_class: type[Store]) -> Scene:
    """A run that was killed when its first call was recorded, the second not begun."""
    scene = Scene(directory, store_class, SCRIPT)
    scene.tools = [scene.world.tool()]
    scene.killed("after-effect-write")
    return scene


def fresh(scene: Scene) -> Result:
    """A life that starts afresh over what is there, in a world where nothing has happened."""
    scene.world.path.unlink(missing_ok=True)
    return scene.live(resume=False)


def test_a_fresh_start_sets_the_earlier_run_aside(fast_path: Path) -> None:
    """The earlier pair is moved whole: a store that looks where it was set aside finds all of it."""
    for kind, store_class in STORES.items():
        scene = interrupted(fast_path / kind, store_class)
        before = as_json(*scene.store.read())

        result = fresh(scene)

        assert "done" == result.status
        assert before == as_json(*store_class(scene.store.directory / "set-aside-1").read())
        assert result.run_id == scene.store.read()[0].run_id


@pytest.mark.parametrize(("kind", "label"), MOVES)
def test_a_fresh_start_killed_between_its_moves(kind: str, label: str, fast_path: Path) -> None:
    """Killed at any move, there is no run to resume, a start works, and the old pair ends up in one place."""
    scene = interrupted(fast_path, STORES[kind])
    before = as_json(*scene.store.read())
    killed(lambda: fresh(scene), label)

    assert ["set-aside-1.unfinished"] == [p.name for p in scene.store.directory.glob("set-aside-*")]
    assert not scene.store.checkpoint_path.exists()
    with states.nothing_changes(scene.store.directory), pytest.raises(StateMissing):
        scene.store.read()

    result, _ = scene.completed()

    assert "done" == result.status
    assert ["set-aside-1"] == [p.name for p in scene.store.directory.glob("set-aside-*")]
    assert before == as_json(*STORES[kind](scene.store.directory / "set-aside-1").read())
    assert ["t1", "t2"] == scene.world.of("effect")


def test_runs_set_aside_are_numbered(store: Store) -> None:
    """Each gets the number after the highest there is, and what is named otherwise counts for nothing."""
    store.directory.mkdir()
    (store.directory / "set-aside-9").mkdir()
    (store.directory / "set-aside-old").mkdir()
    states.sample(store)

    asides = []
    for number in range(2):
        with store.owned(create=False):
            asides.append(store.start(states.begun(f"run-{number}")))

    assert [store.directory / "set-aside-10", store.directory / "set-aside-11"] == asides


def test_a_name_without_a_number_counts_for_nothing(store: Store) -> None:
    """Beside a directory that only looks like one of ours, the first run that is set aside is number 1."""
    states.sample(store)
    (store.directory / "set-aside-old").mkdir()

    with store.owned(create=False):
        assert store.directory / "set-aside-1" == store.start(states.begun("run-2"))


def test_what_cannot_be_examined_is_refused(store: Store) -> None:
    """A link to itself is neither there nor not there, and a start that took it for either would be a guess."""
    store.directory.mkdir()
    store.checkpoint_path.symlink_to(store.checkpoint_path)

    refused = pytest.raises(StateRefused, match="cannot be examined")
    with states.nothing_changes(store.directory), store.owned(create=True), refused as caught:
        store.start(states.begun())
    assert str(store.checkpoint_path) in str(caught.value)


def test_a_fresh_start_killed_before_its_moves(store: Store) -> None:
    """It has made a directory for the earlier run, no more: that run is still the one to resume, or to set aside."""
    states.sample(store)
    before = as_json(*store.read())
    (store.directory / "set-aside-1.unfinished").mkdir()

    assert before == as_json(*store.read())
    with store.owned(create=False):
        assert before == as_json(*store.load())
    with store.owned(create=False):
        aside = store.start(states.begun("run-2"))
    assert ["set-aside-1"] == [path.name for path in store.directory.glob("set-aside-*")]
    assert aside is not None
    assert before == as_json(*type(store)(aside).read())


def test_an_unfinished_move_overwrites_nothing(store: Store) -> None:
    """A file that was put back by hand while its old self lay in an unfinished move gets a place of its own."""
    states.sample(store)
    unfinished = store.directory / "set-aside-1.unfinished"
    unfinished.mkdir()
    (unfinished / store.checkpoint_path.name).write_bytes(b"old")

    with store.owned(create=False):
        aside = store.start(states.begun("run-2"))

    assert store.directory / "set-aside-2" == aside
    assert b"old" == (unfinished / store.checkpoint_path.name).read_bytes()


def test_nothing_is_set_aside_where_nothing_was(store: Store) -> None:
    """A start in an empty directory says so."""
    with store.owned(create=True):
        assert store.start(states.begun()) is None


def test_a_damaged_run_can_be_set_aside(store: Store) -> None:
    """Starting afresh needs no sense in what was there; it keeps it as it was."""
    states.sample(store)
    store.checkpoint_path.write_bytes(b"\0" * 100)

    with store.owned(create=False):
        aside = store.start(states.begun("run-2"))

    assert aside is not None
    assert b"\0" * 100 == (aside / store.checkpoint_path.name).read_bytes()


def test_an_aside_without_a_ledger_excuses_no_later_loss(fast_path: Path) -> None:
    """A checkpoint set aside without its ledger long ago does not make a checkpoint that is missing today harmless."""
    store = JsonStore(fast_path / "state")
    states.sample(store)
    store.ledger_path.unlink()
    states.sample(store)
    store.checkpoint_path.unlink()

    with (
        states.nothing_changes(fast_path),
        pytest.raises(StateIncomplete, match="the checkpoint of this run is missing"),
    ):
        store.read()


@pytest.mark.parametrize(("here", "other"), [(JsonStore, SqliteStore), (SqliteStore, JsonStore)])
def test_a_directory_of_the_other_store_is_refused(here: type[Store], other: type[Store], fast_path: Path) -> None:
    """Neither a start nor a resume goes past a run that another kind of store keeps there."""
    states.sample(here(fast_path))
    store = other(fast_path)

    for use in (lambda: store.start(states.begun()), store.load, store.read):
        with (
            states.nothing_changes(fast_path),
            pytest.raises(StateForeign, match=f"holds a {here.kind} run; pass --store {here.kind}"),
        ):
            use()
