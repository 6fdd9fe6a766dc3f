"""`python -m bench.retention`: how fast ended executions are deleted, and how much that slows the workers.

All slots of the fleet are busy, with a backlog. One process finishes a lease and takes the next for its
slot, again and again: first alone, then while another deletes the ended executions to the last one.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor

from rich.console import Console

from bench import command_line, full_fleet
from bench.databases import NAMES, kinds
from bench.measures import table, typical

COLUMNS = ("", "deleted/s", "seconds", "finish alone", "p99", "longest", "beside", "p99", "longest")


def main() -> None:
    options = _options()
    console = Console(width=130)
    console.print(
        f"{options.rows:,} ended executions with an attempt each, {options.waiting:,} waiting, "
        f"{options.leases} leases; milliseconds, load {os.getloadavg()[0]:.1f} at the start"
    )
    rows = [[NAMES[kind], *_measured(kind, options)] for kind in kinds(options.database)]
    console.print(table("retention", COLUMNS, rows))


def _options() -> argparse.Namespace:
    parser = command_line.parser("bench.retention", __doc__, "--database postgres --rows 100000")
    full_fleet.add_options(parser, "ended", leases=20)
    parser.add_argument("--seconds", type=float, default=10, help="of finishes alone (default 10)")
    return parser.parse_args()


def _measured(kind: str, options: argparse.Namespace) -> list[str]:
    with full_fleet.loaded(kind, options, "load_ended", SLUICE_KEEP_DONE_DAYS="1") as child:
        alone = child(do="finish", seconds=options.seconds)
        with ThreadPoolExecutor(1) as pool:
            began = time.monotonic()
            pruning = pool.submit(child, do="prune")
            beside = []
            while not pruning.done():
                beside += child(do="finish", seconds=options.seconds)
            pruned = pruning.result()
    assert pruned["deleted"] == options.rows, (pruned, time.monotonic() - began)
    rate = pruned["deleted"] / pruned["seconds"]
    return [f"{rate:,.0f}", f"{pruned['seconds']:.0f}", *_cells(alone), *_cells(beside)]


def _cells(took: list[float]) -> list[str]:
    found = typical(took)
    return [f"{found.median:.1f}", f"{found.p99:.1f}", f"{max(took):.0f}"]


if __name__ == "__main__":
    main()
