"""Every exit status of the command line, and the last line that says which and why."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crashtests.unit.bodies import asks, body, call, says
from crashtests.unit.cli import DEMO_DONE, KILLED, cold, report_ids, run_cli, snapshot, write_script
from crashtests.unit.cli_tools import MODULE, effects
from crashtests.unit.surroundings import limit_files

STORES = ("json", "sqlite")
both_stores = pytest.mark.parametrize("store", STORES)


def start(directory: Path, *bodies: Any, **how: Any) -> tuple[int, str]:
    """Start a run of these bodies with the tools of `cli_tools`: exit status and last line."""
    return run_cli("--tools", MODULE, "--script", write_script(directory, *bodies), cwd=directory, **how).end


def resume(directory: Path, *bodies: Any, options: tuple[str, ...] = ()) -> tuple[int, str]:
    script = write_script(directory, *bodies)
    return run_cli("--resume", "--tools", MODULE, "--script", script, *options, cwd=directory).end


@both_stores
def test_done(store: str, fast_path: Path) -> None:
    """0: the last line counts and gives the answer, and a resume of the finished run prints it again."""
    assert (0, DEMO_DONE) == run_cli("--store", store, cwd=fast_path).end

    before = snapshot(fast_path / ".harness")

    assert (0, DEMO_DONE) == run_cli("--resume", cwd=fast_path).end
    assert 1 == len(report_ids(fast_path))
    if store == "json":  # the sqlite store opens the database, which makes and removes its journal
        assert before == snapshot(fast_path / ".harness")


def test_answer_is_one_line(fast_path: Path) -> None:
    """An answer of several lines, or in any script, stays within the last line."""
    ended = start(fast_path, says('One\n"two"\r– drei\u2028vier'))

    assert (0, '[done] turns=0 tokens_used=15 unknowns=0 answer="One\\n\\"two\\"\\r– drei\u2028vier"') == ended


def test_turn_limit(fast_path: Path) -> None:
    """3: the turn limit stops between turns; a resume under the same limit stops again, a raised one goes on."""
    script = [asks(call("a")), asks(call("b")), says("Done.")]
    stopped = "[stopped] turns=1 tokens_used=15 unknowns=0 reason: the limit of 1 turns is reached; a resume may raise "

    arguments = ("--tools", MODULE, "--script", write_script(fast_path, *script), "--turns-max", "1")
    assert (3, f"{stopped}turns_max") == run_cli(*arguments, cwd=fast_path).end
    assert (3, f"{stopped}turns_max") == resume(fast_path, *script)

    ended = resume(fast_path, *script, options=("--turns-max", "9" * 40))

    assert (0, '[done] turns=2 tokens_used=45 unknowns=0 answer="Done."') == ended
    assert ["act a", "act b"] == effects(fast_path)


def test_refusal(fast_path: Path) -> None:
    """3: a refusal stops for good; a resume asks nothing, though the model would now answer."""
    refusal = body("refusal", stop_details={"type": "refusal", "category": "cyber"})
    told = "turns=0 tokens_used=0 unknowns=0 reason: the model refused (category 'cyber')"

    assert (3, f"[stopped] {told}") == start(fast_path, refusal)
    assert (3, f"[stopped] {told}; a resume asks nothing") == resume(fast_path, says("Here you are."))


STOPS: dict[str, tuple[Any, str]] = {
    "max-tokens": (body("max_tokens", call("a")), "the response was cut short: stop_reason 'max_tokens'"),
    "context": (body("model_context_window_exceeded"), "the response was cut short: stop_reason 'model_context_"),
    "unknown": (body("compaction"), "unknown stop reason: stop_reason 'compaction'"),
    "id-twice": (asks(call("a"), call("a")), "protocol error: tool_use_id 'a' is there twice"),
    "no-content": ({"stop_reason": "end_turn"}, "protocol error: content is None, not a list"),
    "text-content": ({"stop_reason": "end_turn", "content": "hi"}, "protocol error: content is 'hi', not a list"),
    "no-type": (body("end_turn", {"text": "hi"}), "protocol error: content block {'text': 'hi'} has no type"),
    "no-object": (body("end_turn", "hi"), "protocol error: content block 'hi' has no type"),
    "no-stop-reason": ({"content": []}, "protocol error: stop_reason is None: the response never ended"),
    "empty": ({}, "protocol error: stop_reason is None"),
    "no-id": (asks({"type": "tool_use", "name": "act", "input": {}}), "protocol error: tool_use id None does not"),
    "no-name": (asks({"type": "tool_use", "id": "a", "input": {}}), "protocol error: tool_use name None does not"),
    "no-input": (asks({"type": "tool_use", "id": "a", "name": "act"}), "protocol error: the input of tool_use 'a' is"),
}


@pytest.mark.parametrize(("response", "reason"), STOPS.values(), ids=STOPS)
def test_response_not_taken(response: Any, reason: str, fast_path: Path) -> None:
    """3: a response that is cut, unknown or breaks the protocol runs nothing; a resume asks again and finishes."""
    status, last_line = start(fast_path, response)

    assert 3 == status
    assert f"[stopped] turns=0 tokens_used=0 unknowns=0 reason: {reason}" in last_line
    assert (0, '[done] turns=1 tokens_used=30 unknowns=0 answer="Done."') == resume(
        fast_path, asks(call("a")), says("Done.")
    )
    assert ["act a"] == effects(fast_path)


def test_odd_usage_is_no_stop(fast_path: Path) -> None:
    """A body whose usage is missing or nonsense is a response all the same; it counts nothing."""
    script = [asks(call("a"), usage=None), asks(call("b"), usage={"input_tokens": "many"}), says("Done.", usage=[])]

    assert (0, '[done] turns=2 tokens_used=0 unknowns=0 answer="Done."') == start(fast_path, *script)


def test_script_at_its_end(fast_path: Path) -> None:
    """3: past the end of a script the error says how long it is; a longer one goes on."""
    reason = "the script ends after 1 responses, and one more was asked for"

    assert (3, f"[stopped] turns=1 tokens_used=15 unknowns=0 reason: {reason}") == start(fast_path, asks(call("a")))
    assert (0, '[done] turns=1 tokens_used=30 unknowns=0 answer="Done."') == resume(
        fast_path, asks(call("a")), says("Done.")
    )


@pytest.mark.parametrize(
    ("tool", "status", "why"),
    [
        ("leave", 3, "a tool raised SystemExit('the tool wants to leave')"),
        ("cancel", 3, "a tool raised CancelledError('cancelled')"),
        ("interrupt", 130, "Ctrl-C"),
    ],
)
@both_stores
def test_tool_that_ends_the_process(store: str, tool: str, status: int, why: str, fast_path: Path) -> None:
    """3 or 130: what is no Exception passes through, and is never taken for a result; a resume says unknown."""
    script = [asks(call("a", tool)), says("Done.")]
    arguments = ("--store", store, "--tools", MODULE, "--script", write_script(fast_path, *script))

    ended = run_cli(*arguments, cwd=fast_path).end

    assert (status, f"[stopped] {why}; the state is as after a kill, --resume goes on") == ended
    assert (0, '[done] turns=1 tokens_used=30 unknowns=1 answer="Done."') == resume(fast_path, *script)


@both_stores
def test_failing_write(store: str, fast_path: Path) -> None:
    """3: a checkpoint that the disk will not take stops the run before any tool; with room again, a resume goes on."""
    script = [asks(call("a", padding="x" * 200_000)), says("Done.")]
    arguments = ("--store", store, "--tools", MODULE, "--script", write_script(fast_path, *script))

    status, last_line = run_cli(*arguments, cwd=fast_path, before=(limit_files, 65_536)).end

    assert 3 == status
    assert last_line.startswith("[stopped] turns=0 tokens_used=0 unknowns=0 reason: could not write 'save-a' to ")
    assert [] == effects(fast_path)
    assert (0, '[done] turns=1 tokens_used=30 unknowns=0 answer="Done."') == resume(fast_path, *script)
    assert ["act a"] == effects(fast_path)


@pytest.mark.parametrize("option", ["--resume", "--status"])
@both_stores
def test_missing(store: str, option: str, fast_path: Path) -> None:
    """4: no directory, or nothing in it: nothing is made there, and the remedy is to start."""
    (fast_path / "empty").mkdir()
    for state in ("nowhere", "empty"):
        before = snapshot(fast_path)
        status, last_line = run_cli(option, "--store", store, "--state", state, cwd=fast_path).end

        assert 4 == status
        assert re.fullmatch(
            rf"\[refused\] {fast_path}/{state}: there is no .*; start a run first, without --resume", last_line
        )
        assert before == snapshot(fast_path)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _next_version(path: Path) -> None:
    if path.suffix == ".json":
        path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
        return
    _pragma(path, "user_version=2")


def _not_ours(path: Path) -> None:
    if path.suffix == ".json":
        path.write_text("{}")
        return
    _pragma(path, "application_id=7")


def _pragma(path: Path, setting: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA {setting}")


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (_truncate, "start afresh without --resume"),
    "empty": (lambda path: path.write_bytes(b""), "is empty; restore it from a backup, or start afresh"),
    "version": (_next_version, "is of version 2, this release reads 1; use the release it is of"),
    "foreign": (_not_ours, "move it away"),
}


@pytest.mark.parametrize(("damage", "says_why"), DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("file", ["checkpoint.json", "effects.json", "state.sqlite3"])
def test_damaged(file: str, damage: Callable[[Path], object], says_why: str, fast_path: Path) -> None:
    """4: state that is damaged, foreign or of another version is named, with the remedy, and left as it is."""
    store = "sqlite" if file == "state.sqlite3" else "json"
    assert (0, DEMO_DONE) == run_cli("--store", store, cwd=fast_path).end
    damage(fast_path / ".harness" / file)
    before = snapshot(fast_path)

    for option in ("--resume", "--resume-or-start", "--status"):
        status, last_line = run_cli(option, cwd=fast_path).end

        assert 4 == status
        assert last_line.startswith(f"[refused] {fast_path}/.harness/{file}: ")
        assert says_why in last_line
        assert before == snapshot(fast_path)


@both_stores
def test_other_mode(store: str, fast_path: Path) -> None:
    """4: a run with started marks is not resumed without them."""
    assert KILLED == run_cli("--store", store, cwd=fast_path, crash_after="after-save-a").status

    status, last_line = run_cli("--resume", "--no-started-marks", cwd=fast_path).end

    assert 4 == status
    assert last_line.endswith(
        ": the run was started with started marks; resume it the way it was started, or start afresh"
    )
    assert (0, DEMO_DONE) == run_cli("--resume", cwd=fast_path).end


def test_statuses_of_a_real_process(fast_path: Path) -> None:
    """The process itself, not only `main`, exits with these statuses: 4, 2, 0."""
    assert 4 == cold("--resume", cwd=fast_path).status
    assert 2 == cold("--resume", "--task", "x", cwd=fast_path).status
    assert (0, DEMO_DONE) == cold(cwd=fast_path).end
