"""`python -m bench.bulk`: how fast a bulk retry runs, and how much it slows the workers.

All slots of the fleet are busy, with a backlog. One process finishes a lease and takes the next for its
slot, again and again: alone, then during a bulk retry of the failed executions, round by round. With
`--whole` a retry of all of them then runs to its end, while pages are opened.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

from rich.console import Console

from bench import command_line, full_fleet
from bench.databases import NAMES, kinds
from bench.full_fleet import Child
from bench.measures import Aim, ratios, spread, table, typical

AIM = Aim(3.0)
"""Highest ratio of a finish during a bulk action to a finish alone: a chunk holds the scheduler lock for
some tens of milliseconds, and about half of the time nobody holds it."""

COLUMNS = ("", "retried/s", "finish alone", "p99", "beside", "p99", "ratio")


def main() -> None:
    options = _options()
    console = Console(width=120)
    console.print(
        f"{options.rows:,} failed executions, {options.waiting:,} waiting, {options.leases} leases, "
        f"{options.rounds} rounds of {options.seconds:g} s; milliseconds, "
        f"load {os.getloadavg()[0]:.1f} at the start"
    )
    for kind in kinds(options.database):
        with full_fleet.loaded(kind, options, "load") as child:
            cells, worst = measure(child, options)
            whole = run_whole(child) if options.whole else None
        console.print(table(NAMES[kind], COLUMNS, [[f"{options.rows:,} rows", *cells]]))
        console.print(f"a finish beside it takes {worst} times as long ({AIM.verdict(worst.median)})")
        if whole:
            _print_whole(console, *whole)


def _options() -> argparse.Namespace:
    parser = command_line.parser(
        "bench.bulk", __doc__, "--database postgres --rows 100000", "--database sqlite --whole"
    )
    full_fleet.add_options(parser, "failed", leases=50)
    parser.add_argument("--rounds", type=int, default=3, help="rounds, alternating (default 3)")
    parser.add_argument("--seconds", type=float, default=5, help="of each part (default 5)")
    parser.add_argument("--whole", action="store_true", help="then retry all, to the end")
    return parser.parse_args()


def measure(child: Child, options: argparse.Namespace) -> tuple[list[str], Any]:
    """The cells of one database's row, and the ratio of finishes during a bulk action to finishes alone."""
    alone, beside, rates = [], [], []
    for _ in range(options.rounds):
        alone.append(child(do="finish", seconds=options.seconds))
        with ThreadPoolExecutor(2) as pool:
            bulk = pool.submit(child, do="retry", seconds=options.seconds)
            beside.append(child(do="finish", seconds=options.seconds))
        found = bulk.result()
        rates.append(found["changed"] / found["seconds"])
    cells = [str(spread(rates))]
    for rounds in (alone, beside):
        pooled = typical([took for some in rounds for took in some])
        cells += [f"{pooled.median:.2f}", f"{pooled.p99:.2f}"]
    ratio = ratios([median(some) for some in beside], [median(some) for some in alone])
    return [*cells, str(ratio)], ratio


def run_whole(child: Child) -> tuple[Any, Any, Any]:
    """What the preview took, the result of the retry of all, and the times of pages opened during it."""
    before = child(do="first_reads")
    with ThreadPoolExecutor(2) as pool:
        pages = pool.submit(child, do="look")
        result = child(do="carry_out")
    return before, result, pages.result()


def _print_whole(console: Console, before: Any, result: Any, pages: Any) -> None:
    console.print(f"groups of failures {before[0]:.0f} ms, preview {before[1]:.0f} ms")
    rate = result["changed"] / result["seconds"]
    console.print(
        f"{result['changed']:,} retried to the end in {result['seconds']:.0f} s: {rate:,.0f} a second; "
        f"counted before in {result['counted']:.0f} ms"
    )
    cells = [[page, str(spread(took)), str(len(took))] for page, took in pages.items()]
    console.print(table("pages meanwhile", ("page", "milliseconds", "opened"), cells))


if __name__ == "__main__":
    main()
