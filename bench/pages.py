"""`python -m bench.pages`: how long every page takes with 1,000,000 executions and 3,000,000 attempts.

In one process, by Django's test client: the server's time without network and browser. Pages are found by
following links from the dashboard, the API and the metrics.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import command_line
from bench.child import ask
from bench.databases import NAMES, databases
from bench.measures import table

BOUNDS = {"postgres": 1.0, "sqlite": 5.0}
"""Most seconds a page may take."""


def main() -> int:
    options = _options()
    console = Console(width=150, stderr=options.json)
    kind, bound = options.database, BOUNDS[options.database]
    load, pages = measure(kind, options.executions, options.repetitions)
    rows = ", ".join(f"{count:,} {name.lower()}s" for name, count in load["rows"].items())
    console.print(f"{rows}; made in {load['seconds']:.0f} s; median of {options.repetitions}")
    slowest = sorted(pages.items(), key=lambda page: -page[1]["seconds"])
    shown = slowest if options.all else slowest[:20]
    console.print(table(NAMES[kind], ("page", "ms", "worst", "statements"), _cells(shown)))
    late = [address for address, page in pages.items() if page["seconds"] > bound]
    most = max(page["statements"] for page in pages.values())
    console.print(
        f"{len(pages)} kinds of pages, {len(late)} above {bound:g} s; most statements of one: {most}"
    )
    if options.json:
        json.dump({"load": load, "pages": pages}, sys.stdout, indent=2)
    return 1 if late else 0


def measure(kind: str, executions: int, repetitions: int) -> tuple[Any, dict[str, Any]]:
    """What was loaded, and each page's median and longest seconds and its number of statements."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        with databases(kind, root) as made:
            environment = {
                **os.environ, **made.make().environment, "SLUICE_LEASE_SECONDS": "86400",
                "SLUICE_MAX_PER_HOST": "0", "SLUICE_LOG_LEVEL": "ERROR",
                "SLUICE_METRICS_WITHOUT_TOKEN": "true",
            }  # fmt: skip
            load = ask("bench.history", environment, do="load", executions=executions)
            pages = ask("bench.history", environment, do="walk", repetitions=repetitions)
    return load, pages


def _cells(pages: list[tuple[str, Any]]) -> list[list[str]]:
    return [
        [
            address[:100],
            f"{page['seconds'] * 1000:.0f}",
            f"{page['worst'] * 1000:.0f}",
            str(page["statements"]),
        ]
        for address, page in pages
    ]


def _options() -> argparse.Namespace:
    parser = command_line.parser("bench.pages", __doc__, "--executions 100000 --all")
    parser.add_argument("--database", choices=sorted(BOUNDS), default="postgres")
    parser.add_argument("--executions", type=int, default=1_000_000, help="each with three attempts")
    parser.add_argument("--repetitions", type=int, default=5, help="of each page (default 5)")
    parser.add_argument("--all", action="store_true", help="show every page, not the slowest 20")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
