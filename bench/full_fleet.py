"""A fleet whose slots are all busy, with a backlog: `bench.bulk` and `bench.retention` measure beside it."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.child import ask
from bench.databases import databases

Child = Callable[..., Any]
"""Runs a function of `bench.bulk_fleet` (`do`) in a process of its own, with the other arguments."""


def add_options(parser: argparse.ArgumentParser, of_rows: str, leases: int) -> None:
    """The options of its size and its database."""
    parser.add_argument("--rows", type=int, default=100_000, help=f"{of_rows} ones (default 10^5)")
    parser.add_argument("--waiting", type=int, default=10_000, help="waiting ones (default 10^4)")
    parser.add_argument("--leases", type=int, default=leases, help=f"busy slots (default {leases})")
    parser.add_argument("--database", choices=("sqlite", "postgres", "both"), default="both")


@contextmanager
def loaded(kind: str, options: argparse.Namespace, load: str, **settings: str) -> Iterator[Child]:
    """Such a fleet on a new database of this kind, filled by the function `load`, while the block runs."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        with databases(kind, root) as made:
            environment = {**os.environ, **made.make().environment, **_settings(options.leases), **settings}

            def child(**question: Any) -> Any:
                return ask("bench.bulk_fleet", environment, **question)

            child(do=load, rows=options.rows, waiting=options.waiting, leases=options.leases)
            yield child


def _settings(leases: int) -> dict[str, str]:
    return {
        "SLUICE_MAX_WORKERS": str(leases),
        "SLUICE_HIGH_PRIORITY_RESERVED": "0",
        "SLUICE_DAILY_BUDGET": "0",
        "SLUICE_LEASE_SECONDS": "86400",
        "SLUICE_LOG_LEVEL": "WARNING",
    }
