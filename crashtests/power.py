"""Measure what the campaign finds: every planted bug, how soon, and how small it becomes.

For each planted bug (`bugs.toml`) and each of some session seeds, the campaign's own generators search until they break
the guarantee that the bug breaks, and what they found is shrunk. The recorded smallest schedule takes no part in it: it
is what the result is held against. Costs are counted in lives, which do not depend on the machine, and in seconds,
which do.

Exit status: 0, every bug was found from every seed within the budget; 1, some were not; 2, wrong usage.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path
from statistics import median

from crashtests.bugs import BUGS, LIVES_MAX, NoSuchBug, PlantedBug, bugs_named, find
from crashtests.campaign import Campaign
from crashtests.execute import executor
from crashtests.failure import broken
from crashtests.replay import USAGE, complain
from crashtests.schedule import Schedule, parse
from crashtests.workers import add_jobs, workers

SEEDS = 20


@dataclass(frozen=True, slots=True)
class Search:
    """One search for one bug, and the shrinking of what it found. `shrunk` is None if it found nothing.

    `events_more`: by how many kills, turns and calls the shrunk schedule is longer than the smallest known.
    """

    seed: int
    lives: int
    seconds: float
    shrunk: str | None
    lives_to_shrink: int = 0
    seconds_to_shrink: float = 0.0
    smallest: bool = False
    events_more: int = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="BUG", nargs="*", help="the name of a planted bug (default: all)")
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help=f"from how many seeds (default {SEEDS})")
    add_jobs(parser, "bugs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every search to this file")
    parser.epilog = (__doc__ or "").partition("\n\n")[2]


def run(options: argparse.Namespace) -> int:
    try:
        bugs = bugs_named(options.names)
    except NoSuchBug as error:
        return complain(str(error), USAGE)
    if options.seeds < 1 or options.jobs < 1:
        return complain("--seeds and --jobs must be at least 1", USAGE)
    searches: dict[str, list[Search]] = {}
    print(_HEAD, flush=True)
    with workers(options.jobs) as pool:
        for bug, found in zip(bugs, pool.map(measure, bugs, repeat(options.seeds)), strict=True):
            searches[bug.name] = found
            print(row(bug, found), flush=True)
    print("\n".join(score(searches)))
    if options.json is not None:
        rows = {name: [asdict(search) for search in each] for name, each in searches.items()}
        options.json.write_text(json.dumps({"lives_max": LIVES_MAX, "searches": rows}, indent=1) + "\n")
    return 0 if all(search.shrunk for each in searches.values() for search in each) else 1


def measure(bug: PlantedBug, seeds: int) -> list[Search]:
    """Search for one bug from each of the seeds 0, 1, 2 ..., every time as if for the first time."""
    with executor(planted=bug.planted) as execute:
        searches = []
        for seed in range(seeds):
            execute.forget()
            campaign = Campaign(execute)
            lives, began = execute.lives, time.perf_counter()
            found = find(campaign, bug, seed)
            spent = execute.lives - lives, time.perf_counter() - began
            if found is None:
                searches.append(Search(seed, *spent, shrunk=None))
                continue
            lives, began = execute.lives, time.perf_counter()
            shrunk = broken(campaign, *found).schedule
            to_shrink = execute.lives - lives, time.perf_counter() - began
            more = _events(shrunk) - _events(parse(bug.smallest))
            searches.append(Search(seed, *spent, str(shrunk), *to_shrink, str(shrunk) == bug.smallest, more))
    return searches


def _events(schedule: Schedule) -> int:
    crashes, turns, calls = schedule.size()[:3]
    return crashes + turns + calls


_WIDTH = max(len(bug.name) for bug in BUGS) + 1
_HEAD = (
    f"{'':{_WIDTH}}{'':15}{'found':>7}{'lives to find':>16}{'seconds':>14}{'smallest':>10}{'lives to shrink':>17}\n"
    f"{'planted bug':{_WIDTH}}{'guarantee':15}{'':7}{'median':>9}{'worst':>7}{'median':>8}{'worst':>6}{'':10}"
    f"{'median':>10}{'worst':>7}"
)


def row(bug: PlantedBug, searches: Sequence[Search]) -> str:
    """A bug's line of the table."""
    found = [search for search in searches if search.shrunk is not None]
    lives, seconds = _median_and_worst(s.lives for s in searches), _median_and_worst(s.seconds for s in searches)
    to_shrink = _median_and_worst(search.lives_to_shrink for search in found)
    return (
        f"{bug.name:{_WIDTH}}{bug.guarantee:15}{f'{len(found)}/{len(searches)}':>7}{lives[0]:9.0f}{lives[1]:7.0f}"
        f"{seconds[0]:8.1f}{seconds[1]:6.1f}{f'{sum(s.smallest for s in found)}/{len(found)}':>10}"
        f"{to_shrink[0]:10.0f}{to_shrink[1]:7.0f}"
    )


def score(searches: dict[str, list[Search]]) -> Iterator[str]:
    """What the table comes to."""
    every = [search for each in searches.values() for search in each]
    found = [search for search in every if search.shrunk is not None]
    always = sum(all(search.shrunk for search in each) for each in searches.values())
    yield ""
    yield f"found: {always} of {len(searches)} planted bugs, from every seed, within {LIVES_MAX} lives each"
    if found:
        smallest, more = sum(search.smallest for search in found), max(search.events_more for search in found)
        lives = _median_and_worst(search.lives_to_shrink for search in found)
        seconds = _median_and_worst(search.seconds_to_shrink for search in found)
        yield (
            f"shrunk to the smallest schedule known: {smallest} of {len(found)} ({100 * smallest / len(found):.1f} %); "
            f"longer by at most {more} events"
        )
        yield f"lives to shrink: median {lives[0]:.0f}, worst {lives[1]:.0f}"
        yield f"seconds to shrink: median {seconds[0]:.1f}, worst {seconds[1]:.1f}"


def _median_and_worst(numbers: Iterator[float]) -> tuple[float, float]:
    known = list(numbers)
    return (median(known), max(known)) if known else (0, 0)
