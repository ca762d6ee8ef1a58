"""The matrix: every subject killed in the same ways, judged by the same guarantees, as one table with its evidence.

It writes matrix.md, matrix.json and, beside them, `evidence/SUBJECT.jsonl`: a line for each run, with its schedule, its
lives and the world's log. Subjects whose packages are not installed are said to be so; asked for by name, that is an
error. Nothing is drawn at random; with --minutes, what there was no time for is said to be left out.

Exit status: 0, written; 1, written, and it is not to be trusted: ours is not whole, the naive loop is, or a subject is
broken without a kill; 2, there is no such subject, or it is not installed.
"""

from __future__ import annotations

import argparse

DIRECTORY = "crash-matrix"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--subjects", nargs="+", metavar="NAME", help="these alone, or PATH.py:NAME (default: all)")
    parser.add_argument("--minutes", type=float, default=20.0, metavar="N", help="what it may take in all (20)")
    parser.add_argument("--out", default=DIRECTORY, metavar="DIR", help=f"where to write ({DIRECTORY})")
    parser.add_argument("--update", action="store_true", help="keep what is in DIR of subjects that are not run now")
    parser.add_argument("--jobs", type=int, metavar="N", help="subjects at a time (default: two more than cores)")
    parser.epilog = (__doc__ or "").partition("\n\n")[2]


def run(options: argparse.Namespace) -> int:
    from crashtests.matrix.session import run_matrix

    return run_matrix(options)
