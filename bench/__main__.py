"""`python -m bench`: plain Celery, and Sluicegate on both databases, in turn: rates, processor time, gaps.

The contestants alternate, round by round; medians, with the lowest and the highest. Compare processor times
first: they hardly move where a rate moves by half.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from bench import command_line
from bench.contestants import Load, Result, fresh, plain_celery, servers, sluicegate
from bench.gaps import gaps_ms, shown
from bench.measures import ratios, spread, table
from bench.peers import APPS, PYTHON, peer
from bench.processor import COLUMN, Spent
from queuemgr.local.private_servers import PostgresServer

Contestant = Callable[[Load], Result]
PLAIN = "plain Celery"


def main() -> None:
    options = _options()
    console = Console(width=120, stderr=options.json)
    console.print(f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} CPUs, "
                  f"load {os.getloadavg()[0]:.1f} at the start, {options.rounds} rounds")  # fmt: skip
    report: dict[str, Any] = {}
    with servers() as (redis, postgres, root):
        contestants: dict[str, Contestant] = {
            PLAIN: lambda load: plain_celery(load, redis, root),
            "SQLite": lambda load: sluicegate(load, redis, root, ""),
            "PostgreSQL": lambda load: sluicegate(load, redis, root, fresh(postgres)),
        }
        if options.peers:
            contestants |= {name: _peer(app, postgres, root) for name, app in APPS.items()}
        for slots in (8, 50):
            report |= compare(console, contestants, Load(options.count, 0, slots), options.rounds)
        report |= _gaps(console, contestants, Load(options.count // 5, 0.05, 8, traced=True))
        if not options.quick:
            report |= compare(console, contestants, Load(12_000, 0.05, 200), options.rounds)
            report |= compare(console, contestants, Load(2_000, 1.0, 200), options.rounds)
    if options.json:
        json.dump(report, sys.stdout, indent=2)


def _peer(app: str, postgres: PostgresServer, root: Path) -> Contestant:
    return lambda load: peer(app, load, fresh(postgres), root)


def _options() -> argparse.Namespace:
    parser = command_line.parser("bench", __doc__, "--quick --rounds 1", "--peers --quick")
    parser.add_argument("--count", type=int, default=5000, help="no-op probes a round (default 5000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds; medians are shown (default 5)")
    parser.add_argument("--quick", action="store_true", help="leave out the runs on 200 slots")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--peers", action="store_true", help="Procrastinate and pgqueuer, too")
    options = parser.parse_args()
    if options.peers and not PYTHON.exists():
        parser.error("there is no environment with the peers: `make bench-peers` makes it")
    return options


def compare(
    console: Console, contestants: dict[str, Contestant], load: Load, rounds: int
) -> dict[str, list[dict[str, Any]]]:
    """Run this load on each contestant in turn, and print their rates: of no-ops beside plain Celery's, else
    as a share of the ideal."""
    results: dict[str, list[Result]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            results[name].append(run(load))
    rates = {name: [result.rate for result in each] for name, each in results.items()}
    rows, figures = [], []
    for name, found in rates.items():
        share = spread([rate / load.ideal for rate in found]) if load.seconds else ratios(found, rates[PLAIN])
        used = Spent(*(median(part) for part in zip(*(each.spent for each in results[name]), strict=True)))
        rows.append([name, f"{median(found):,.0f}/s", str(share), str(used)])
        figures.append({"name": name, "rate": asdict(spread(found)), "share": asdict(share),
                        "processor_ms": used._asdict()})  # fmt: skip
    title, against = f"{load.count:,} no-ops, {load.slots} slots", f"ratio to {PLAIN}"
    if load.seconds:
        title, against = f"{load.count:,} of {load.seconds:g} s, {load.slots} slots", "share of ideal"
    console.print(table(title, ["", "rate", f"{against} (lowest - highest)", COLUMN], rows))
    return {title: figures}


def _gaps(
    console: Console, contestants: dict[str, Contestant], load: Load
) -> dict[str, list[dict[str, Any]]]:
    rows, figures = [], []
    for name, run in contestants.items():
        result = run(load)
        middle, tail = shown(gaps_ms(result.starts, result.ends, load.slots))
        rows.append([name, f"{middle:.1f} ms", f"{tail:.1f} ms"])
        figures.append({"name": name, "median_ms": middle, "p99_ms": tail})
    title = f"end of one to start of the next, {load.count:,} of {load.seconds:g} s, {load.slots} slots"
    console.print(table(title, ["", "median", "99th percentile"], rows))
    return {title: figures}


if __name__ == "__main__":
    main()
