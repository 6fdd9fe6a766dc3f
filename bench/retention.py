"""`python -m bench.retention`: how fast ended executions are deleted, and how much that slows the workers.

All slots of the fleet are busy, with a backlog. One process finishes a lease and takes the next for its
slot, again and again: first alone, then while another deletes the ended executions to the last one.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.child import ask
from bench.databases import NAMES, Database, databases, kinds
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
    parser = argparse.ArgumentParser(prog="python -m bench.retention", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="ended ones (default 10^5)")
    parser.add_argument("--waiting", type=int, default=10_000, help="waiting ones (default 10^4)")
    parser.add_argument("--leases", type=int, default=20, help="busy slots (default 20)")
    parser.add_argument("--seconds", type=float, default=10, help="of finishes alone (default 10)")
    parser.add_argument("--database", choices=("sqlite", "postgres", "both"), default="both")
    return parser.parse_args()


def _measured(kind: str, options: argparse.Namespace) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        with databases(kind, root) as made:
            database = made.make()
            _child(database, options, do="load_ended", rows=options.rows, waiting=options.waiting,
                   leases=options.leases)  # fmt: skip
            alone = _child(database, options, do="finish", seconds=options.seconds)
            with ThreadPoolExecutor(1) as pool:
                began = time.monotonic()
                pruning = pool.submit(_child, database, options, do="prune")
                beside = []
                while not pruning.done():
                    beside += _child(database, options, do="finish", seconds=options.seconds)
                pruned = pruning.result()
    assert pruned["deleted"] == options.rows, (pruned, time.monotonic() - began)
    rate = pruned["deleted"] / pruned["seconds"]
    return [f"{rate:,.0f}", f"{pruned['seconds']:.0f}", *_cells(alone), *_cells(beside)]


def _cells(took: list[float]) -> list[str]:
    found = typical(took)
    return [f"{found.median:.1f}", f"{found.p99:.1f}", f"{max(took):.0f}"]


def _child(database: Database, options: argparse.Namespace, **question: Any) -> Any:
    environment = {
        **os.environ,
        **database.environment,
        "SLUICE_MAX_WORKERS": str(options.leases),
        "SLUICE_HIGH_PRIORITY_RESERVED": "0",
        "SLUICE_DAILY_BUDGET": "0",
        "SLUICE_LEASE_SECONDS": "86400",
        "SLUICE_KEEP_DONE_DAYS": "1",
        "SLUICE_LOG_LEVEL": "WARNING",
    }
    return ask("bench.bulk_fleet", environment, **question)


if __name__ == "__main__":
    main()
