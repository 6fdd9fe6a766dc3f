"""`python -m bench.scale_simulation`: where the one scheduler lock saturates, for fleets no test machine
holds.

The costs are those that `python -m bench.finish --json` measures (`--figures`), and the decisions are the
real ones. With `--measured` the fleets of a run of `python -m bench.scale --json` are simulated beside what
they did. It needs no server. The database's own processors, which bound a fleet too, are not simulated.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import command_line
from bench.fleet_simulation import LOCK_WAIT, Costs, Seen, Simulation
from bench.measures import table

MEASURED = Costs(
    hold=0.0024, hold_each=0.00013, end=0.0022, end_each=0.00014, begin=0.0022, begin_each=0.00014
)
"""Of this code on PostgreSQL on a machine with 2 CPUs: see docs/scale.md."""

LEAST_SECONDS = 20.0

COLUMNS = ("workers, step", "ideal", "rate", "of ideal", "lock held", "starts a hold", "by message",
           "idle median", "99 %", "a hand-over each", "at most")  # fmt: skip


def main() -> None:
    options = _options()
    costs = costs_of(json.loads(options.figures.read_text())) if options.figures else MEASURED
    console = Console(width=150, stderr=options.json)
    console.print(
        "milliseconds: " + ", ".join(f"{name} {1e3 * cost:.2f}" for name, cost in asdict(costs).items())
    )
    if options.measured:
        rows = _beside(json.loads(options.measured.read_text()), costs)
        console.print(
            table("Measured and simulated", ("workers, step", "measured", "simulated", "ratio"), rows)
        )
        return
    rows, report = [], []
    for workers in options.workers:
        for seconds in options.seconds:
            seen = simulated(workers, options.slots, seconds, costs, options.domains, options.lock_wait / 1e3)
            rows.append(_cells(workers, options.slots, seconds, seen, costs))
            report.append({"name": f"{workers}, {seconds:g} s", **asdict(seen), **bounds(costs)})
    console.print(table(f"{options.slots} slots a worker, simulated", COLUMNS, rows))
    if options.json:
        json.dump(report, sys.stdout, indent=2)


def _options() -> argparse.Namespace:
    parser = command_line.parser("bench.scale_simulation", __doc__, "--workers 10 100 --seconds 1 10",
                                 "--figures finish.json", "--measured scale.json")  # fmt: skip
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 100, 1000], help="default 10 100 1000")
    parser.add_argument("--seconds", type=float, nargs="+", default=[1, 5, 10, 60], help="default 1 5 10 60")
    parser.add_argument("--slots", type=int, default=40, help="of each worker (default 40)")
    parser.add_argument("--domains", type=int, default=1, help="locks, each for its share of the workers")
    parser.add_argument(
        "--lock-wait", type=float, default=1e3 * LOCK_WAIT,
        help="milliseconds that freed slots wait for the lock (default 100, as they do)",
    )  # fmt: skip
    parser.add_argument("--figures", type=Path, help="what python -m bench.finish --json has printed")
    parser.add_argument("--measured", type=Path, help="what python -m bench.scale --json has printed")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser.parse_args()


def simulated(
    workers: int, slots: int, seconds: float, costs: Costs, domains: int = 1, lock_wait: float = LOCK_WAIT
) -> Seen:
    """With several domains each has its share of the workers, a lock of its own, and is like the others."""
    seen = Simulation(workers // domains, slots, seconds, costs, lock_wait=lock_wait).run(
        max(LEAST_SECONDS, seconds / 2)
    )
    return replace(seen, rate=domains * seen.rate)


def bounds(costs: Costs) -> dict[str, float]:
    """Starts a second: while each end has a decision of its own, which hands the slot over, and at most, when
    decisions are of ever more starts."""
    return {"hand_over_bound": 1 / (costs.hold + costs.hold_each), "bound": 1 / costs.hold_each}


def _cells(workers: int, slots: int, seconds: float, seen: Seen, costs: Costs) -> list[str]:
    ideal = workers * slots / seconds if seconds else float("inf")
    return [
        f"{workers:,}, {seconds:g} s", f"{ideal:,.0f}/s", f"{seen.rate:,.0f}/s",
        f"{min(1.0, seen.rate / ideal):.2f}",
        f"{min(1.0, seen.held):.0%}", f"{seen.starts_a_hold:,.1f}", f"{seen.by_message:.0%}",
        f"{seen.idle_median:,.0f} ms", f"{seen.idle_p99:,.0f} ms",
        *(f"{bound:,.0f}/s" for bound in bounds(costs).values()),
    ]  # fmt: skip


def _beside(measured: list[dict[str, Any]], costs: Costs) -> list[list[str]]:
    """A row for each fleet that was measured, named `4, 0.05 s`."""
    rows = []
    for each in measured:
        found = re.fullmatch(r"(\d+), ([\d.e-]+) s", each["name"])
        if not found:
            raise SystemExit(f"{each['name']} is no fleet of python -m bench.scale")
        rate = simulated(int(found[1]), each["slots"], float(found[2]), costs).rate
        rows.append([each["name"], f"{each['rate']:,.0f}/s", f"{rate:,.0f}/s", f"{each['rate'] / rate:.2f}"])
    return rows


def costs_of(figures: Mapping[str, Mapping[str, float]]) -> Costs:
    """Read from the figures of `bench.finish`, by how many leases are ended at once: a transaction takes so
    long in all, holds the lock for a part of that, and each has a fixed part and one for each lease. To begin
    leases takes no longer than to end them."""
    sizes = {int(name.split()[0]): each for name, each in figures.items()}
    hold, hold_each = line({n: each["lock_hold_ms"] / 1e3 for n, each in sizes.items()})
    whole, whole_each = line({n: n / each["finishes_per_second"] for n, each in sizes.items()})
    end, end_each = max(0.0, whole - hold), max(0.0, whole_each - hold_each)
    return Costs(hold, hold_each, end, end_each, begin=end, begin_each=end_each)


def line(points: Mapping[int, float]) -> tuple[float, float]:
    """The fixed part and the part for each of the straight line nearest these points, relative to each: so
    that one lease counts as much as fifty. Neither is negative."""
    weights = {n: 1 / taken**2 for n, taken in points.items()}
    total = sum(weights.values())
    middle = sum(w * n for n, w in weights.items()) / total
    level = sum(w * points[n] for n, w in weights.items()) / total
    spread = sum(w * (n - middle) ** 2 for n, w in weights.items())
    slope = sum(w * (n - middle) * (points[n] - level) for n, w in weights.items()) / spread
    slope = max(0.0, slope)
    return max(0.0, level - slope * middle), slope


if __name__ == "__main__":
    main()
