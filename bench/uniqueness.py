"""`python -m bench.uniqueness`: processor time of an enqueue with a unique key, and without.

One process enqueues one execution after another, each in a transaction of its own, and decides nothing.
Counted is the processor time of that process and of its session in PostgreSQL. The kinds take turns, round by
round, so that a machine that slows down slows all of them; many short rounds say more than few long ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from bench import child, command_line
from bench.contestants import fresh, servers
from bench.databases import NAMES, kinds

if TYPE_CHECKING:  # importing it for real needs Django's settings
    from queuemgr.flows.unique import Unique

PLAIN = "without"
WARMING = 2
"""Rounds that are not counted: after them the session has prepared its statements."""

TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = command_line.parser("bench.uniqueness", __doc__, "--database both", "--count 20 --rounds 80")
    parser.add_argument("--database", choices=(*NAMES, "both"), default="both", help="default both")
    parser.add_argument("--count", type=int, default=20, help="calls of each kind a round (default 20)")
    parser.add_argument("--rounds", type=int, default=100, help="rounds; means are shown (default 100)")
    parser.add_argument("--play", action="store_true", help="in the database that DATABASE_URL names, alone")
    options = parser.parse_args()
    if options.play:
        show(played(options.count, options.rounds))
        return
    print(f"load {os.getloadavg()[0]:.1f} at the start, {os.cpu_count()} CPUs")
    with servers() as (_, postgres, root):
        for kind in kinds(options.database):
            url = fresh(postgres) if kind == "postgres" else ""
            print(f"{NAMES[kind]}:", flush=True)
            _play(url, str(root / kind), options.count, options.rounds)


def _play(url: str, data: str, calls: int, rounds: int) -> None:
    environment = {**os.environ, "DATABASE_URL": url, "SLUICE_DATA_DIR": data}
    options = ["--play", "--count", str(calls), "--rounds", str(rounds)]
    subprocess.run(
        [sys.executable, "-m", "bench.uniqueness", *options], env=environment, cwd=child.ROOT, check=True
    )


def show(milliseconds: dict[str, list[float]]) -> None:
    """A line for each kind: its mean, and how much that is above that of a plain one in the same rounds."""
    for kind, each in milliseconds.items():
        more = [one - other for one, other in zip(each, milliseconds[PLAIN], strict=True)]
        error = stdev(more) / sqrt(len(more)) if len(more) > 1 else 0.0
        print(f"  {kind:<22} {fmean(each):.3f} ms, {fmean(more):+.3f} ms (standard error {error:.3f})")


def played(calls: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of processor time a call, by kind and round."""
    child.set_up_django()
    from django.core.management import call_command

    from queuemgr.flows.unique import Unique
    from queuemgr.lifecycle import enqueue
    from queuemgr.scheduling import limit_rows

    call_command("migrate", verbosity=0)
    limit_rows.sync()
    vars(enqueue)["dispatch"] = lambda: None  # nobody works here
    one = ["host"]
    kinds: dict[str, tuple[Unique | None, bool]] = {
        PLAIN: (None, False),
        "unique, stored": (Unique(keys=one), False),
        "within, stored": (Unique(keys=one, within="1h"), False),
        "unique, there already": (Unique(keys=one), True),
        "replaced": (Unique(keys=one, on_conflict="replace"), True),
        "debounced, stored": (Unique(keys=one, debounce="1h"), False),
        "debounced, moved on": (Unique(keys=one, debounce="1h"), True),
    }
    numbers, spent = count(), _processor_seconds()
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number in range(rounds + WARMING):
        for kind, (unique, alike) in kinds.items():
            began = spent()
            for _ in range(calls):
                n = next(numbers)
                host = kind if alike else f"host-{n}.example"
                enqueue.enqueue("probe", f"k{n}", {"host": host}, unique=unique)
            if number >= WARMING:
                found[kind].append(1000 * (spent() - began) / calls)
    return found


def _processor_seconds() -> Callable[[], float]:
    """What tells the processor time of this process and of its session in PostgreSQL so far."""
    from django.db import connection

    pid = 0
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pid = cursor.fetchone()[0]

    def spent() -> float:
        return time.process_time() + (_of_process(pid) if pid else 0.0)

    return spent


def _of_process(pid: int) -> float:
    fields: list[Any] = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


if __name__ == "__main__":
    main()
