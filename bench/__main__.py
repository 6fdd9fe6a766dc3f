"""`python -m bench`: measures every value of docs/benchmarks.md in one run."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable
from statistics import median

from rich.console import Console
from rich.table import Table

from bench import command_line
from bench.contestants import Load, Result, fresh, plain_celery, servers, sluicegate
from bench.gaps import gaps_ms, shown
from bench.measures import ratios, spread, table

Contestant = Callable[[Load], Result]


def main() -> None:
    options = _options()
    console = Console(width=110)
    console.print(f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} CPUs, "
                  f"load {os.getloadavg()[0]:.1f} at the start, {options.rounds} rounds")  # fmt: skip
    with servers() as (redis, postgres, root):
        contestants: dict[str, Contestant] = {
            "plain Celery": lambda load: plain_celery(load, redis, root),
            "SQLite": lambda load: sluicegate(load, redis, root, ""),
            "PostgreSQL": lambda load: sluicegate(load, redis, root, fresh(postgres)),
        }
        for slots in (8, 50):
            console.print(_throughput(contestants, Load(options.count, 0, slots), options.rounds))
        console.print(_gaps(contestants, Load(options.count // 5, 0.05, 8, traced=True)))
        if not options.quick:
            console.print(_shares(contestants, Load(12_000, 0.05, 200), options.rounds))
            console.print(_shares(contestants, Load(2_000, 1.0, 200), 1))


def _options() -> argparse.Namespace:
    parser = command_line.parser("bench", __doc__, "--quick --rounds 1")
    parser.add_argument("--count", type=int, default=5000, help="no-op probes a round (default 5000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; medians are shown (default 3)")
    parser.add_argument("--quick", action="store_true", help="leave out the runs on 200 slots")
    return parser.parse_args()


def _rates(contestants: dict[str, Contestant], load: Load, rounds: int) -> dict[str, list[float]]:
    """Alternates between the contestants, round by round, so that a slowing machine slows all of them."""
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            rates[name].append(run(load).rate)
    return rates


def _throughput(contestants: dict[str, Contestant], load: Load, rounds: int) -> Table:
    rates = _rates(contestants, load, rounds)
    plain = rates["plain Celery"]
    rows = []
    for name, found in rates.items():
        rows.append([name, f"{median(found):,.0f}/s", str(ratios(found, plain))])
    title = f"{load.count} no-ops, {load.slots} slots"
    return table(title, ["", "rate", "ratio to plain (lowest - highest)"], rows)


def _shares(contestants: dict[str, Contestant], load: Load, rounds: int) -> Table:
    rates = _rates(contestants, load, rounds)
    rows = []
    for name, found in rates.items():
        shares = spread([rate / load.ideal for rate in found])
        rows.append([name, f"{median(found):,.0f}/s", str(shares)])
    title = f"{load.count} of {load.seconds:g} s on {load.slots} slots, ideal {load.ideal:,.0f}/s"
    return table(title, ["", "rate", "share of ideal (lowest - highest)"], rows)


def _gaps(contestants: dict[str, Contestant], load: Load) -> Table:
    rows = []
    for name, run in contestants.items():
        result = run(load)
        middle, tail = shown(gaps_ms(result.starts, result.ends, load.slots))
        rows.append([name, f"{middle:.1f} ms", f"{tail:.1f} ms"])
    title = f"End of one to start of the next, {load.count} of {load.seconds:g} s on {load.slots} slots"
    return table(title, ["", "median", "99th percentile"], rows)


if __name__ == "__main__":
    main()
