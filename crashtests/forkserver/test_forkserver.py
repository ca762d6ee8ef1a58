"""The fork server: every end of a life is told truthfully, and nobody's death leaves anything behind."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crashtests.forkserver.child import announce, die
from crashtests.forkserver.client import Death, ForkServer, ForkServerError, cold_life
from crashtests.forkserver.fifo import Fifo

TARGET = "crashtests.forkserver.targets:perform"
LINUX_ONLY = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel offers this on Linux only")
# The suite's own machinery: it changes seldom, and its tests take their time.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    """A server that uses what this kernel has."""
    with ForkServer(TARGET) as started:
        yield started


@pytest.fixture(scope="module")
def portable_server() -> Iterator[ForkServer]:
    """A server that uses only what every system has."""
    with ForkServer(TARGET, setup={"portable": True}) as started:
        yield started


@pytest.fixture(params=["server", "portable_server"])
def either_server(request: pytest.FixtureRequest) -> ForkServer:
    found: ForkServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def brief_server() -> Iterator[ForkServer]:
    """A server whose lives last half a second."""
    with ForkServer(TARGET, life_timeout_s=0.5) as started:
        yield started


def look(server: ForkServer, **request: Any) -> dict[str, Any]:
    death = server.run({"do": "look", **request})

    assert death.exit_status == 0, death.output
    seen: dict[str, Any] = json.loads(death.output)
    return seen


def target_file(directory: Path, text: str) -> str:
    path = directory / "some_target.py"
    path.write_text(text)
    return f"{path}:act"


# How a life ends.


@pytest.mark.parametrize(("returned", "status"), [(None, 0), (0, 0), (3, 3), (255, 255), (-1, 255)])
def test_exit_status(server: ForkServer, returned: int | None, status: int) -> None:
    """What the function returns is the exit status of the life."""
    death = server.run({"do": "leave", "status": returned})

    assert (death.exit_status, death.signal, death.witness, death.killed) == (status, None, None, False)


@pytest.mark.parametrize(
    ("error", "arguments", "status", "output"),
    [
        ("ValueError", ["oh no"], 70, "ValueError: oh no"),
        ("KeyboardInterrupt", [], 130, "KeyboardInterrupt"),
        ("SystemExit", [], 0, ""),
        ("SystemExit", [None], 0, ""),
        ("SystemExit", [4], 4, ""),
        ("SystemExit", ["a reason"], 1, "a reason"),
    ],
)
def test_uncaught(server: ForkServer, error: str, arguments: list[Any], status: int, output: str) -> None:
    """An exception that leaves the function ends the life as it ends an interpreter, but with status 70."""
    death = server.run({"do": "fail", "error": error, "arguments": arguments})

    assert death.exit_status == status
    assert output == (death.output.strip().splitlines() or [""])[-1]
    assert ("Traceback" in death.output) == (status in (70, 130))


def test_not_a_status(server: ForkServer) -> None:
    """A function that returns something else is told so, rather than taken for a success."""
    death = server.run({"do": "leave", "status": "fine"})

    assert death.exit_status == 70
    assert "must return an exit status" in death.output


def test_killed_at_a_crash_point(either_server: ForkServer) -> None:
    """An announced SIGKILL is a kill, and takes the buffers with it."""
    death = either_server.run({"do": "kill_announced", "label": "säve-a\n.written:2"})

    assert death.killed
    assert (death.exit_status, death.signal, death.timed_out) == (None, signal.SIGKILL, False)
    assert (death.witness, death.witnesses) == ("säve-a\n.written:2", ("säve-a\n.written:2",))
    assert death.output == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_signal_without_announcement(either_server: ForkServer, number: int) -> None:
    """A signal that no crash point has announced is reported, and is no kill."""
    death = either_server.run({"do": "kill_unannounced", "signal": int(number)})

    assert (death.exit_status, death.signal, death.witness, death.killed) == (None, number, None, False)


def test_announcement_without_death(server: ForkServer) -> None:
    """A life that lives on after it has announced its death is caught at it, with all its announcements."""
    death = server.run({"do": "announce_only", "labels": ["a:1", "b:1"]})

    assert (death.exit_status, death.witness, death.witnesses) == (0, "b:1", ("a:1", "b:1"))
    assert not death.killed


def test_unkillable(server: ForkServer) -> None:
    """PID 1, which cannot kill itself, leaves at once, and that is no kill."""
    death = server.run({"do": "survive_die"})

    assert (death.exit_status, death.signal, death.witness, death.killed) == (137, None, "point:1", False)
    assert death.output == ""


@pytest.mark.parametrize("act", [announce, die])
def test_death_outside_a_life(act: Any) -> None:
    """A crash point that fires in the test process raises, rather than killing it."""
    with pytest.raises(RuntimeError, match="outside a life"):
        act("point:1")


def test_killed_needs_all_three() -> None:
    """A kill is signal 9, announced, and not sent by the time limit."""
    made: dict[str, Any] = {"exit_status": None, "output": "", "duration_s": 0.0, "survivors": 0}

    assert Death(**made, signal=9, timed_out=False, witness="a:1").killed
    assert not Death(**made, signal=9, timed_out=True, witness="a:1").killed
    assert not Death(**made, signal=9, timed_out=False, witness=None).killed
    assert not Death(**made, signal=15, timed_out=False, witness="a:1").killed


# What a life leaves behind.


def test_time_limit(brief_server: ForkServer, fifo: Fifo) -> None:
    """A life that hangs, ignoring SIGTERM, is killed with its group, and the next one is not affected."""
    death = brief_server.run({"do": "start_others", "children": 1, "then": "hang", "fifo": fifo.path})

    assert (death.signal, death.timed_out, death.killed, death.survivors) == (signal.SIGKILL, True, False, 1)
    assert len(fifo.wait_for_end()) == 2
    assert death.duration_s >= 0.5
    assert brief_server.run({"do": "leave", "status": 0}).exit_status == 0


@pytest.mark.parametrize("then", ["die", "return"])
def test_survivors(either_server: ForkServer, fifo: Fifo, then: str) -> None:
    """What a life has started and left alive is counted and killed; what is dead already is not counted."""
    request = {
        "do": "start_others",
        "children": 2,
        "children_dead": sys.platform != "darwin",
        "fifo": fifo.path,
    }
    death = either_server.run({**request, "then": then})

    assert death.survivors == 2
    assert death.killed == (then == "die")
    fifo.wait_for_end()


@LINUX_ONLY
def test_daemons(fifo: Fifo) -> None:
    """A daemon that has left the group and the session does not get away, and is reaped."""
    with ForkServer(TARGET) as server:
        death = server.run({"do": "start_others", "daemons": 2, "then": "return", "fifo": fifo.path})
        left = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text()

    assert death.survivors == 2
    assert left == ""
    fifo.wait_for_end()


@LINUX_ONLY
@pytest.mark.parametrize(("children", "limit_s"), [(0, 15.0), (2, 1.0)])
def test_what_lives_on(server: ForkServer, fifo: Fifo, children: int, limit_s: float) -> None:
    """What a killed life has started gets its time: what ends by itself was not killed, the rest is, at the limit."""
    request = {"do": "start_others", "mourners": 1, "children": children, "fifo": fifo.path, "then": "die"}
    death = server.run({**request, "lives_on_s": limit_s})

    assert death.killed
    assert (death.lived_on, death.survivors) == (1 + children, children)
    assert (death.lived_on_s >= limit_s) == bool(children)
    fifo.wait_for_end()


@pytest.mark.parametrize("more", [{"then": "return", "lives_on_s": 15.0}, {"then": "die"}])
def test_what_does_not_live_on(either_server: ForkServer, fifo: Fifo, more: dict[str, Any]) -> None:
    """A life that ends by itself takes along what it has started, and so does a kill that is not to spare it."""
    death = either_server.run({"do": "start_others", "children": 1, "fifo": fifo.path, **more})

    assert (death.lived_on, death.lived_on_s, death.survivors) == (0, 0.0, 1)
    fifo.wait_for_end()


@LINUX_ONLY
def test_processes_of_the_target(fifo: Fifo) -> None:
    """What the target's prepare() has started is no life's survivor, and goes with the server."""
    with ForkServer(TARGET, setup={"helper": fifo.path}) as server:
        helper = fifo.next_pid()
        deaths = [server.run({"do": "kill_announced"}) for _ in range(2)]
        os.kill(helper, 0)

    assert [(death.killed, death.survivors) for death in deaths] == [(True, 0)] * 2
    fifo.wait_for_end()


def test_no_descriptors_pile_up(either_server: ForkServer) -> None:
    """Forty lives leave no descriptor open, neither in the server nor in the client."""
    open_before = None
    for _ in range(2):
        open_now = [
            sorted(os.listdir(directory))
            for directory in (f"/proc/{either_server.pid}/fd", "/dev/fd")
            if os.path.isdir(directory)
        ]
        assert open_before in (None, open_now)
        open_before = open_now
        deaths = [either_server.run({"do": "kill_announced"}) for _ in range(20)]

        assert all(death.killed for death in deaths)


# What a life is given.


def test_surroundings(either_server: ForkServer, tmp_path: Path) -> None:
    """A life has its own session, an empty stdin, default handlers, its directory, and nothing of pytest."""
    seen = look(either_server, cwd=str(tmp_path))

    assert not {"pytest", "_pytest", "hypothesis"} & set(seen["modules"])
    assert seen["is_leader"]
    assert seen["stdin"] == ""
    assert seen["cwd"] == str(tmp_path)
    assert ["SIG_DFL" in handler for handler in seen["handlers"]] == [True, True, False]
    assert "default_int_handler" in seen["handlers"][2]
    assert len(seen["prepared"]) == 1
    assert seen["collects_garbage"]


def test_descriptors_of_the_server(either_server: ForkServer) -> None:
    """A life holds its streams, the witness, the lifeline, one to list them, and none of the server's."""
    assert len(look(either_server)["descriptors"]) == 3 + 1 + 1 + 1


def test_missing_cwd(server: ForkServer, tmp_path: Path) -> None:
    """A directory that does not exist is an error of the life, which names it."""
    death = server.run({"do": "look", "cwd": str(tmp_path / "nowhere")})

    assert death.exit_status == 70
    assert "nowhere" in death.output


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is this one, less what belongs to the test run or the API, plus what was asked for.

    Temporary files go below the root, and with it.
    """
    for name in (
        "PYTEST_ADDOPTS_X",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "CRASH_AFTER",
        "COV_CORE_SOURCE",
    ):
        monkeypatch.setenv(name, "inherited")
    monkeypatch.setenv("SOMETHING_ELSE", "inherited")
    with ForkServer(TARGET, env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}) as server:
        environment = look(server)["environment"]

    assert environment["TMPDIR"] == str(server.root)
    assert environment["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"
    assert environment["SOMETHING_ELSE"] == "inherited"
    assert environment["PYTHONHASHSEED"] == "0"
    assert not [name for name in environment if name.startswith(("PYTEST_", "ANTHROPIC_API", "COV", "CRASH_AFTER"))]


def test_random(server: ForkServer) -> None:
    """Random numbers differ from life to life, unless they are seeded by the request."""
    fresh = {look(server)["random"] for _ in range(3)}
    seeded = {look(server, random_seed=7)["random"] for _ in range(3)}

    assert (len(fresh), len(seeded)) == (3, 1)


def test_large_request_and_output(server: ForkServer) -> None:
    """Megabytes go in; of megabytes that come out the end is kept, undecodable bytes and all."""
    seen = look(server, data="\ud800ä" * 300_000)
    death = server.run({"do": "write_much", "chars": 3_000_000})

    assert seen["request_chars"] > 3_000_000
    assert death.output.startswith("xxx")
    assert death.output.endswith("x\nto stderr\n\\xff the end")
    assert 16_000 < len(death.output) <= 16 * 1024 + 3


def test_not_json(server: ForkServer) -> None:
    """A request that is not JSON is refused before it is sent, and the server is as good as before."""
    with pytest.raises(TypeError, match="not JSON serializable"):
        server.run({"do": b"bytes"})

    assert server.run({"do": "leave", "status": 0}).exit_status == 0


# Targets that cannot be loaded.


def test_garbage_while_loading() -> None:
    """What the target prints while it is loaded disturbs nobody, and no life repeats it."""
    with ForkServer(TARGET, setup={"garbage": "\0garbage"}) as server:
        deaths = [server.run({"do": "leave", "status": 5}) for _ in range(2)]

    assert [(death.exit_status, death.output) for death in deaths] == [(5, "")] * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import no_such_module",
            "some_target.py.*, line 1.*\n.*\nModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("raise SystemExit('no')", "SystemExit: no"),
        ("def other(request): ...", "has no function 'act'"),
        ("act = 1 +", "SyntaxError"),
        (
            "def act(request): ...\ndef prepare(setup): setup['missing']",
            "prepare.. failed:\n(.*\n)*KeyError: 'missing'",
        ),
        (
            "import os\nos.write(2, b'last words')\nos._exit(9)",
            "while it loaded .*exit status 9.*\nlast words",
        ),
        ("import os\nos.kill(os.getpid(), 11)", "while it loaded .*signal 11"),
    ],
)
def test_target_that_fails_to_load(tmp_path: Path, text: str, message: str) -> None:
    """A target that cannot be loaded is named, with its own error and no frame of ours; nothing is left."""
    target = target_file(tmp_path, text)
    with pytest.raises(ForkServerError, match=message) as caught:
        ForkServer(target, root=tmp_path / "root")

    assert caught.value.target == target
    assert target in str(caught.value)
    assert "crashtests/forkserver/" not in str(caught.value)
    assert not (tmp_path / "root").exists()


def test_module_that_does_not_exist() -> None:
    """A module that cannot be found is said to be missing."""
    with pytest.raises(ForkServerError, match=r"'no_such_module:act'.*\nModuleNotFoundError: No module named 'no_such"):
        ForkServer("no_such_module:act")


def test_target_that_hangs_while_loading(tmp_path: Path) -> None:
    """Loading has a time limit of its own."""
    target = target_file(tmp_path, "import signal\nsignal.pause()")
    with pytest.raises(ForkServerError, match="took longer than start_timeout_s"):
        ForkServer(target, start_timeout_s=0.2)


@pytest.mark.parametrize("target", ["module", "module:", ":function", "a.py:not a name"])
def test_malformed_target(target: str) -> None:
    """A target of another form is refused, and the two forms are named."""
    with pytest.raises(ForkServerError, match=r"'module:function' or 'path/to/file.py:function'"):
        ForkServer(target)


def test_setup_that_nobody_takes(tmp_path: Path) -> None:
    """A setup for a target without prepare() would be lost silently, so it is refused."""
    with pytest.raises(ForkServerError, match="no function 'prepare'"):
        ForkServer(target_file(tmp_path, "def act(request): ..."), setup={})


def test_python_that_does_not_exist(tmp_path: Path) -> None:
    """An interpreter that is not there is named."""
    with pytest.raises(ForkServerError, match="nowhere/python"):
        ForkServer(TARGET, python=str(tmp_path / "nowhere" / "python"))


def test_target_beside_its_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, named relatively, can import what lies beside it, even if it is called as a standard module."""
    (tmp_path / "beside_it.py").write_text("status = 6")
    (tmp_path / "json.py").write_text("import beside_it\ndef act(request): return beside_it.status")
    monkeypatch.chdir(tmp_path)
    with ForkServer("json.py:act") as server:
        assert server.run({}).exit_status == 6


# Cold lives.


def test_cold_life_is_the_same_life(server: ForkServer) -> None:
    """A life in a fresh interpreter ends as a forked one does, and prints the same."""
    for request in (
        {"do": "kill_announced"},
        {"do": "leave", "status": 4},
        {"do": "announce_only", "labels": ["a", "b"]},
    ):
        warm, cold = server.run(request), cold_life(TARGET, request, setup={"garbage": "while loading"})

        assert {**fields(warm), "duration_s": 0} == {**fields(cold), "duration_s": 0}


def fields(death: Death) -> dict[str, Any]:
    return {name: getattr(death, name) for name in death.__dataclass_fields__}


def test_surroundings_of_a_cold_life(server: ForkServer, tmp_path: Path) -> None:
    """A cold life is given what a forked one is given."""
    request = {"do": "look", "cwd": str(tmp_path), "random_seed": 7}
    warm, cold = look(server, **request), json.loads(cold_life(TARGET, request).output)
    for seen in (warm, cold):  # each has its server's root for temporary files
        del seen["environment"]["TMPDIR"]

    for name in ("cwd", "stdin", "is_leader", "hash", "random", "environment", "request_chars"):
        assert warm[name] == cold[name], name
    assert not {"pytest", "hypothesis"} & set(cold["modules"])
    assert len(cold["descriptors"]) == len(warm["descriptors"])


def test_cold_life_of_a_broken_target(tmp_path: Path) -> None:
    """A target that a cold life cannot load is an error here too, not a death."""
    with pytest.raises(ForkServerError, match="No module named 'no_such_module'"):
        cold_life(target_file(tmp_path, "import no_such_module"), {})


def test_cold_life_that_hangs(fifo: Fifo) -> None:
    """The time limit holds for cold lives."""
    death = cold_life(TARGET, {"do": "start_others", "then": "hang", "fifo": fifo.path}, life_timeout_s=0.3)

    assert (death.timed_out, death.signal) == (True, signal.SIGKILL)


# Directories.


def test_root_and_runs() -> None:
    """The root is private; runs are fresh, can be dropped whatever is in them, and go with the server."""
    with ForkServer(TARGET) as server:
        first, second = server.new_run(), server.new_run()
        (first / "below").mkdir()
        (first / "below" / "file").touch()
        (first / "link").symlink_to(second)
        (second / "kept").touch()
        (first / "below").chmod(0)
        first.chmod(0o500)
        server.drop_run(first)
        server.drop_run(first)

        assert stat.S_IMODE(server.root.stat().st_mode) == 0o700
        assert os.listdir(server.root) == [second.name]
        assert os.listdir(second) == ["kept"]
        with pytest.raises(ValueError, match="new_run"):
            server.drop_run(server.root)

    assert not server.root.exists()


def test_root_with_something_in_it(tmp_path: Path) -> None:
    """A directory that is not empty is not taken for a root, since it would be removed."""
    (tmp_path / "precious").touch()
    with pytest.raises(FileExistsError, match="must be a new or empty directory"):
        ForkServer(TARGET, root=tmp_path)

    assert (tmp_path / "precious").exists()


def test_out_of_reach_of_ctrl_c(server: ForkServer) -> None:
    """A Ctrl-C at the terminal is for the client alone, which then ends the server in its own time."""
    assert server.pid is not None
    assert os.getsid(server.pid) == server.pid


def test_closed() -> None:
    """Closing twice is closing once, and a closed server says so."""
    server = ForkServer(TARGET)
    server.close()
    server.close()

    with pytest.raises(ForkServerError, match="closed"):
        server.run({})
