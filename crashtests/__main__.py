"""`python -m crashtests SUBCOMMAND`: what is not a test.

A subcommand is a module of this package with `add_arguments(parser)` and `run(options) -> exit status`; the first line
of its docstring is its help. To add one: write the module and name it in `SUBCOMMANDS`.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

SUBCOMMANDS = ("bench", "replay", "keep", "smallest", "power", "mutants", "subjects", "matrix", "rivals")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m crashtests", description=__doc__.partition("\n")[0])
    subparsers = parser.add_subparsers(metavar="SUBCOMMAND", required=True)
    for name in SUBCOMMANDS:
        module = importlib.import_module(f"crashtests.{name}")
        what = (module.__doc__ or "").partition("\n")[0]
        subparser = subparsers.add_parser(name, help=what, description=what)
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    options = parser.parse_args(arguments)
    status: int = options.run(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
