"""Client, server and lives die with each other, whoever is killed first, and leave nothing behind."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from crashtests.forkserver.client import ForkServer, ForkServerError
from crashtests.forkserver.fifo import Fifo

TARGET = "crashtests.forkserver.targets:perform"
# A client that starts one life and waits for it, to be killed from outside.
CLIENT = """
import json, sys
from crashtests.forkserver.client import ForkServer
server = ForkServer("crashtests.forkserver.targets:perform", setup={"portable": sys.argv[2] == "True"})
print(json.dumps([server.pid, str(server.root)]), flush=True)
server.run(json.loads(sys.argv[1]))
"""

# The suite's own machinery: it changes seldom, and its tests take their time.
pytestmark = pytest.mark.slow


@contextlib.contextmanager
def client_in_mid_life(request: dict[str, Any], portable: bool) -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, json.dumps(request), str(portable)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent.parent,
    ) as client:
        assert client.stdout is not None
        pid, root = json.loads(client.stdout.readline())
        try:
            yield client, pid, Path(root)
        finally:
            client.kill()


def wait_for_server(root: Path) -> None:
    """Wait until the server of this root, whose client is dead, is dead too."""
    with contextlib.suppress(FileNotFoundError):
        lock = os.open(root, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.close(lock)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing lives on")
def test_client_killed_while_others_live_on(fifo: Fifo) -> None:
    """What lives on behind a dead life does not outlive the client either."""
    request = {"do": "start_others", "children": 1, "behind_it": True, "then": "die", "fifo": fifo.path}
    with client_in_mid_life({**request, "lives_on_s": 100.0}, False) as (client, _, root):
        assert fifo.next_pid() > 0  # said by the one that lives on, when the life is dead
        client.kill()
        fifo.wait_for_end()
        wait_for_server(root)

        assert not root.exists()


@pytest.mark.parametrize("portable", [False, True])
def test_client_killed(fifo: Fifo, portable: bool) -> None:
    """A client killed in mid-life takes its server, the life, what that has started and the root with it."""
    request = {"do": "start_others", "children": 1, "then": "hang", "fifo": fifo.path}
    with client_in_mid_life(request, portable) as (client, _, root):
        assert fifo.next_pid() != fifo.next_pid()
        client.kill()
        fifo.wait_for_end()
        wait_for_server(root)

        assert not root.exists()


def test_client_killed_before_it_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is killed once its server runs, but has been told nothing, leaves no root either."""
    monkeypatch.setenv("CRASHTESTS_TMPDIR", str(tmp_path))
    speechless = CLIENT.replace("\nserver", "\nimport os\nForkServer._ask = lambda *_: os.kill(os.getpid(), 9)\nserver")
    arguments = [sys.executable, "-c", speechless, "{}", "False"]
    client = subprocess.run(arguments, cwd=Path(__file__).parents[2], check=False)
    for root in tmp_path.iterdir():
        wait_for_server(root)

    assert client.returncode == -signal.SIGKILL
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("portable", [False, True])
def test_server_killed(fifo: Fifo, portable: bool) -> None:
    """A server killed in mid-life takes the life and what that has started with it; the client says so."""
    with ForkServer(TARGET, setup={"portable": portable}) as server:
        with pytest.raises(ForkServerError, match=f"{TARGET}.* died in the middle of a life .*signal 9"):
            server.run({"do": "start_others", "children": 1, "then": "kill server", "fifo": fifo.path})
        fifo.wait_for_end()
        with pytest.raises(ForkServerError, match=f"{TARGET}.*died"):
            server.run({})
        assert server.root.exists()

    assert not server.root.exists()


def test_server_killed_between_lives() -> None:
    """A server that has died meanwhile is noticed by the next call, which kills no group long gone."""
    with ForkServer(TARGET) as server:
        server.run({"do": "kill_announced"})
        assert server.pid is not None
        assert os.pread(server._group_record.fileno(), 8, 0) == bytes(8)
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(ForkServerError, match="signal 9"):
            server.run({})


@pytest.mark.parametrize("portable", [False, True])
def test_client_and_server_killed(fifo: Fifo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portable: bool) -> None:
    """When both are killed the life goes; the next server to start removes their root, but none in use."""
    monkeypatch.setenv("CRASHTESTS_TMPDIR", str(tmp_path))  # where nobody else's start removes it first
    request = {"do": "start_others", "then": "hang", "fifo": fifo.path}
    with client_in_mid_life(request, portable) as (client, pid, stale):
        fifo.next_pid()
        client.send_signal(signal.SIGSTOP)  # else it would clean up after the server
        with ForkServer(TARGET) as other:
            assert stale.parent == other.root.parent == tmp_path
            assert stale.exists()
            os.kill(pid, signal.SIGKILL)
            client.kill()
            fifo.wait_for_end()
            lock = os.open(stale, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)  # held until both are gone
            os.close(lock)
            assert stale.exists()
            with ForkServer(TARGET):
                assert not stale.exists()
                assert other.root.exists()


def test_interrupted_client(fifo: Fifo) -> None:
    """Ctrl-C in the client ends the life, and the server, lest an answer be taken for another's."""

    def interrupt(_signum: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with ForkServer(TARGET, life_timeout_s=60) as server:
            with pytest.raises(KeyboardInterrupt):
                server.run(
                    {
                        "do": "start_others",
                        "then": "interrupt client",
                        "client": os.getpid(),
                        "fifo": fifo.path,
                    }
                )
            fifo.wait_for_end()
            with pytest.raises(ForkServerError, match="interrupted"):
                server.run({})
    finally:
        signal.signal(signal.SIGUSR1, before)
