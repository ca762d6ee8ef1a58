"""Mutate the recovery code of the harness, and see that every mutant is noticed, or is known to be equivalent.

For each module: how many mutants there are (mutate.py), how many of them the campaign alone notices, how many more the
harness's own tests (mutation.py), and how many stand in `mutants.toml` with the reason why nobody can notice them.
Those that survive and are not listed are shown. All modules take about an hour of one core, half of it with `--quick`.

Exit status: 0, every mutant is noticed or listed; 1, some survive; 2, there is no such module.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path

from crashtests.mutate import Mutant, mutants, source_of
from crashtests.mutation import Baseline, Covered, Examiner, Verdict, baseline, covered, swept
from crashtests.workers import workers

MODULES = ("loop", "settle", "reconcile", "ledger", "checkpoint", "store", "json_store", "sqlite_store", "durable")
_PATH = Path(__file__).with_name("mutants.toml")


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A mutant that cannot be noticed, and why. `times`: how many mutants the row stands for, if they look alike."""

    module: str
    function: str
    before: str
    after: str
    why: str
    times: int = 1

    def is_of(self, mutant: Mutant) -> bool:
        return (self.module, self.function, self.before, self.after) == (
            mutant.module.rpartition(".")[2],
            mutant.function,
            mutant.before,
            mutant.after,
        )


def equivalents() -> list[Equivalent]:
    """The rows of the list."""
    return [Equivalent(**row) for row in tomllib.loads(_PATH.read_text(encoding="utf-8")).get("equivalent", [])]


def all_mutants(modules: Iterable[str]) -> list[Mutant]:
    return [mutant for name in modules for mutant in mutants(f"harness.{name}", source_of(f"harness.{name}"))]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--module", metavar="M", action="append", help=f"one of {', '.join(MODULES)} (default: all)")
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="how many mutants at a time (default: 1)")
    parser.add_argument("--each", action="store_true", help="a line for each mutant that is noticed, and by what")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="the tests before the kills: the campaign has its scripts alone to notice it",
    )
    parser.epilog = (__doc__ or "").partition("\n\n")[2]


def run(options: argparse.Namespace) -> int:
    modules = options.module or MODULES
    if unknown := [name for name in modules if name not in MODULES]:
        print(f"crashtests: module {unknown[0]!r} is none of {', '.join(MODULES)}", file=sys.stderr)
        return 2
    if options.jobs < 1:
        print(f"crashtests: --jobs {options.jobs}: must be at least 1", file=sys.stderr)
        return 2
    counts: Counter[tuple[str, str]] = Counter()
    listed = equivalents()
    wanted = all_mutants(modules)
    tried = [mutant for mutant in wanted if not any(row.is_of(mutant) for row in listed)]
    counts.update((_name(mutant), "equivalent") for mutant in wanted if mutant not in tried)
    for mutant, verdict in _examined(tried, options.jobs, quick=options.quick):
        counts[_name(mutant), verdict.by or "survived"] += 1
        if verdict.by is None:
            print(f"SURVIVED {mutant}", flush=True)
        elif options.each:
            print(f"{verdict.by:9}{mutant}\n    {verdict.how}", flush=True)
    print("\n".join(_table(modules, counts, quick=options.quick)))
    return 1 if any(what == "survived" for _, what in counts) else 0


def _name(mutant: Mutant) -> str:
    return mutant.module.rpartition(".")[2]


def _table(modules: Sequence[str], counts: Counter[tuple[str, str]], *, quick: bool) -> Iterator[str]:
    columns = ("campaign", "tests", "equivalent", "survived")
    yield f"{'module':14}{'mutants':>9}" + "".join(f"{column:>12}" for column in columns)
    for name in modules:
        row = [counts[name, column] for column in columns]
        yield f"{name:14}{sum(row):9}" + "".join(f"{n:12}" for n in row)
    sums = {column: sum(counts[name, column] for name in modules) for column in columns}
    yield f"{'all':14}{sum(sums.values()):9}" + "".join(f"{sums[column]:12}" for column in columns)
    others = sum(sums.values()) - sums["equivalent"]
    by_both = sums["campaign"] + sums["tests"]
    # Of those that a test was the first to notice nobody has asked whether a kill would have shown them.
    notices = "alone notices at least" if quick else "alone notices"
    yield (
        f"score: of {others} mutants that are not equivalent the campaign {notices} {sums['campaign']} "
        f"({_percent(sums['campaign'], others)}), with the harness's own tests {by_both} ({_percent(by_both, others)})"
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.1f} %"


def _examined(tried: list[Mutant], jobs: int, *, quick: bool) -> Iterator[tuple[Mutant, Verdict]]:
    """Each mutant with what noticed it, as they are done."""
    known = baseline(swept()), covered()
    if jobs == 1:
        with Examiner(*known) as examiner:
            yield from ((mutant, examiner.examine(mutant, quick=quick)) for mutant in tried)
        return
    with workers(jobs, _begin, *known) as pool:
        futures = {pool.submit(_examine, mutant, quick): mutant for mutant in tried}
        yield from ((futures[future], future.result()) for future in as_completed(futures))


_examiner: Examiner


def _begin(seen: Baseline, tests: Covered) -> None:
    """In a process of the pool: its fork servers end with it."""
    global _examiner
    _examiner = Examiner(seen, tests)


def _examine(mutant: Mutant, quick: bool) -> Verdict:
    return _examiner.examine(mutant, quick=quick)
