"""Running a matrix: which subjects, each in a process of its own, and the files that come of it."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crashtests.environments import NotInstalled, installed, python_of, versions
from crashtests.execute import SubjectFault, executor
from crashtests.forkserver.client import ForkServerError
from crashtests.matrix import judge, plan, verdicts
from crashtests.matrix.campaign import Runner
from crashtests.matrix.report import markdown
from crashtests.replay import USAGE, complain
from crashtests.schedule import Kill
from crashtests.subject import SubjectError, load_subject
from crashtests.subjects import SUBJECTS
from crashtests.workers import workers
from crashtests.world import AFTER_EFFECT

VERSION = 1
_SHARES = 4
WRITTEN, NOT_TRUSTED = 0, 1


def run_matrix(options: argparse.Namespace) -> int:
    """The subcommand: run, write, and say where. Returns its exit status."""
    names: Sequence[str] = options.subjects or list(SUBJECTS)
    jobs = options.jobs or (os.cpu_count() or 1) + 2  # most subjects wait more than they work
    if options.minutes <= 0 or jobs < 1:
        return complain(f"--minutes {options.minutes} and --jobs {jobs} must be more than nothing", USAGE)
    try:
        there, not_there = _installed(names, by_name=bool(options.subjects))
    except SubjectError as error:
        return complain(str(error), USAGE)
    out = Path(options.out)
    (out / "evidence").mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    until = begin + 60 * options.minutes
    # A slow one may have more than its equal share, but not all that is left for those behind it.
    share_s = _SHARES * 60 * options.minutes * min(jobs, len(there)) / max(1, len(there))
    subjects = []
    with workers(min(jobs, max(1, len(there)))) as pool:
        # The slow ones first: begun last, they would be waited for alone.
        first = sorted(there, key=lambda name: not load_subject(name).slow)
        running = {name: pool.submit(run_subject, name, out, share_s, until) for name in first}
        for name in there:
            subjects.append(subject := running[name].result())
            print(f"{name}: {_in_a_line(subject)}", flush=True)
    earlier = _earlier(out) if options.update else {}
    subjects += [each for each in earlier.get("subjects", ()) if each["name"] not in there]
    known = list(SUBJECTS)
    subjects.sort(key=lambda each: known.index(each["name"]) if each["name"] in known else len(known))
    matrix = {
        "version": VERSION,
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "jobs": jobs,
        "hash_seed": 0,
        "lives": sum(subject["lives"] for subject in subjects),
        "seconds": round(time.monotonic() - begin + earlier.get("seconds", 0), 1),
        "not_installed": not_there,
        "subjects": subjects,
    }
    (out / "matrix.json").write_text(json.dumps(matrix, indent=1) + "\n")
    (out / "matrix.md").write_text(markdown(matrix))
    print(f"{out / 'matrix.md'}, {out / 'matrix.json'} and the raw evidence in {out / 'evidence'}")
    problems = not_trusted(subjects)
    for problem in problems:
        complain(problem, NOT_TRUSTED)
    return NOT_TRUSTED if problems else WRITTEN


def _earlier(out: Path) -> dict[str, Any]:
    """What an earlier matrix of this form has left in the directory; nothing if there is none."""
    path = out / "matrix.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found if found.get("version") == VERSION else {}


def _installed(names: Sequence[str], *, by_name: bool) -> tuple[list[str], list[str]]:
    there, not_there = [], []
    for name in dict.fromkeys(names):
        try:
            python_of(load_subject(name).environment)
            there.append(name)
        except NotInstalled as error:
            if by_name:
                raise SubjectError(f"subject {name!r} cannot be run: {error}") from error
            print(f"{name}: not installed ({error})", flush=True)
            not_there.append(name)
    return there, not_there


def run_subject(name: str, out: Path, share_s: float, until: float) -> dict[str, Any]:
    """Run one subject's plan and give its part of matrix.json; the evidence goes to a file of its name.

    It stops after `share_s`, or at `until` of the monotonic clock.
    """
    subject = load_subject(name)
    path = out / "evidence" / f"{re.sub(r'[^A-Za-z0-9_-]+', '-', name)}.jsonl"
    python = python_of(subject.environment)
    found = installed(subject.packages, python) if subject.packages else versions(subject.environment, python)
    problem, left_out, lives, cost = "", 0, 0, {"warm": 0.0, "cold": 0.0}
    with path.open("w") as file:
        file.write(json.dumps({"subject": name, "title": subject.name, "versions": found, "hash_seed": 0}) + "\n")
        try:
            with executor(name, warm_up=False) as execute:
                runner = Runner(execute, file, min(until, time.monotonic() + share_s))
                runner.run()
                left_out, lives, records = runner.left_out, execute.lives, runner.records
                cost = _cost(execute)
        except ForkServerError as error:
            problem, records = str(error), []
    documents = dict(subject.documents)
    return {
        "name": name,
        "spec": SUBJECTS.get(name, name),
        "title": subject.name,
        "date": datetime.date.today().isoformat(),
        "versions": found,
        "evidence": str(path.relative_to(out)),
        "control": [problem] if problem else verdicts.control(records),
        "cells": verdicts.cells(name, records, judge.cannot(subject), documents, races=subject.races),
        "parts": verdicts.by_part(records),
        "runs": len(records),
        "lives": lives,
        "left_out": left_out,
        "seconds_per_life": cost,
    }


def _cost(execute: Any) -> dict[str, float]:
    """Seconds for a kill and all the lives that follow it: forked, and each in an interpreter of its own."""
    script = next(iter(plan.scripts(execute.subject)), None)
    cost = {"warm": 0.0, "cold": 0.0}
    for word in cost:
        if script is None:
            break
        begin = time.perf_counter()
        try:
            execute.again(plan.killed(script, Kill(AFTER_EFFECT)), cold=word == "cold")
        except SubjectFault:
            continue
        cost[word] = round(time.perf_counter() - begin, 4)
    return cost


def _in_a_line(subject: dict[str, Any]) -> str:
    broken = [name for name, cell in subject["cells"].items() if cell["verdict"] == "broken"]
    invalid = [name for name, cell in subject["cells"].items() if cell["verdict"] == "invalid"]
    says = "whole" if not broken else f"broken: {', '.join(broken)}"
    return says + (f"; invalid: {', '.join(invalid)}" if invalid else "") + f" ({subject['runs']} runs)"


def not_trusted(subjects: Sequence[dict[str, Any]]) -> list[str]:
    """Why the table as a whole is not to be believed; nothing if it is."""
    problems = []
    for subject in subjects:
        broken = [name for name, cell in subject["cells"].items() if cell["verdict"] == "broken"]
        if subject["control"]:
            problems.append(f"{subject['name']} is broken without a kill: {subject['control'][0]}")
        if subject["name"].startswith("ours-") and broken:
            problems.append(f"{subject['name']} is not whole: {', '.join(broken)}")
        if subject["name"] == "naive" and not {"AT-MOST-ONCE", "TOLD"} <= set(broken):
            problems.append("the naive loop was not found to be broken: nothing else can be believed")
    return problems
