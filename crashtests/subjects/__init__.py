"""The subjects that come with the suite: list them, and install what they need.

`SUBJECTS` names each configuration; what it needs besides the suite's own packages is in its environment
(environments.py). To add one: write a file with a subclass of `crashtests.subject.Subject`, and name it here.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every life imports this package: it must cost nothing
    import argparse

SUBJECTS = {
    "ours-json": "crashtests.subjects.ours:Json",
    "ours-json-no-marks": "crashtests.subjects.ours:JsonWithoutMarks",
    "ours-sqlite": "crashtests.subjects.ours:Sqlite",
    "ours-sqlite-no-marks": "crashtests.subjects.ours:SqliteWithoutMarks",
    "naive": "crashtests.subjects.naive:Naive",
    "dbos": "crashtests.subjects.dbos_steps:Steps",
    "pydantic-ai-dbos": "crashtests.subjects.pydantic_ai_dbos:Durable",
    "pydantic-ai-steps": "crashtests.subjects.pydantic_ai_steps:StepPersistence",
    "pydantic-ai-frontier": "crashtests.subjects.pydantic_ai_steps:Frontier",
    "tool-runner": "crashtests.subjects.tool_runner:ToolRunner",
    "openai-agents": "crashtests.subjects.openai_agents:Session",
    "claude-agent": "crashtests.subjects.claude_agent:ClaudeAgent",
    "langgraph-async": "crashtests.subjects.langgraph_graph:Graph",
    "langgraph-sync": "crashtests.subjects.langgraph_graph:Sync",
    "langgraph-exit": "crashtests.subjects.langgraph_graph:Exit",
    "langgraph-tasks-async": "crashtests.subjects.langgraph_tasks:Tasks",
    "langgraph-tasks-sync": "crashtests.subjects.langgraph_tasks:SyncTasks",
    "langgraph-recipe": "crashtests.subjects.langgraph_once:Recipe",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", dest="command")
    installs = commands.add_parser("install", help="set up the environments of these subjects, with venv and pip")
    installs.add_argument("names", nargs="+", metavar="NAME", help="an environment, a subject, or all")
    parser.epilog = "Environments are below ~/.cache/crashtests/subjects, or where CRASHTESTS_SUBJECTS says."


def run(options: argparse.Namespace) -> int:
    return _install(options.names) if options.command == "install" else _list()


def _list() -> int:
    from crashtests.environments import ENVIRONMENTS, NotInstalled, python_of, versions
    from crashtests.subject import load_subject

    states: dict[str | None, str] = {None: "needs nothing more"}
    for name, environment in ENVIRONMENTS.items():
        try:
            found = versions(name, python_of(name))
            states[name] = "installed: " + ", ".join(f"{package} {version}" for package, version in found.items())
        except NotInstalled:
            states[name] = f"not installed: python -m crashtests subjects install {environment.name}"
    for name, spec in SUBJECTS.items():
        print(f"{name:24}{states[load_subject(spec).environment]}")
    return 0


def _install(names: list[str]) -> int:
    from crashtests.environments import ENVIRONMENTS, InstallFailed, install
    from crashtests.subject import load_subject

    wanted: list[str] = []
    for name in names:
        needed = load_subject(name).environment if name in SUBJECTS else name
        if name == "all":
            wanted += ENVIRONMENTS
        elif needed in ENVIRONMENTS:
            wanted.append(str(needed))
        elif needed is not None:
            known = ", ".join(["all", *ENVIRONMENTS, *SUBJECTS])
            print(f"crashtests: there is nothing to install for {name!r}; known are {known}", file=sys.stderr)
            return 2
    for environment in dict.fromkeys(wanted):
        print(f"{environment}: installing {' '.join(ENVIRONMENTS[environment].requirements)}", flush=True)
        try:
            print(f"{environment}: in {install(environment)}", flush=True)
        except InstallFailed as error:
            print(f"crashtests: {environment}: {error}", file=sys.stderr)
            return 1
    return 0
