"""`python -m bench.allowances`: the processor time that allowances add to each execution.

A real worker and a real broker. Probes that use three meters, with none, two and five allowances that do not
bind under their key, in rounds that alternate. Processor seconds are those of the worker and, with
PostgreSQL, of its server, from the first start to the end.
"""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

import psutil

from bench.child import ask
from bench.command_line import parser
from bench.contestants import broker, fleet_environment, worker
from bench.databases import NAMES, Database, databases, kinds
from bench.limits import wait_until_done
from bench.measures import Aim
from queuemgr.local.private_servers import RedisServer

USES = {"tokens": 100, "usd": 0.01, "bytes": 1000}
ALLOWANCES = {
    "none": "",
    "two": "1,000,000,000 tokens/minute; 1,000,000 usd/day",
    "five": "1,000,000,000 tokens/minute; 1,000,000,000 tokens/day; 1,000,000 usd/day; 1,000,000 usd/month; "
    "1,000,000,000,000 bytes/hour",
}
AIM = Aim(0.1)
SLOTS = 8


def milliseconds(allowances: str, count: int, redis: RedisServer, database: Database) -> float:
    """Processor milliseconds for each execution of a fresh fleet."""
    environment = fleet_environment(redis, database, high_priority_reserved=0)
    limits = {"fleet": {"max_running": 0}, "key:*": {"max_running": 0, "allowances": allowances}}
    ask(
        "bench.limited", environment, do="prepare", limits=limits, keys=1, saturated=0, count=count,
        seconds=0, uses=USES,
    )  # fmt: skip
    with worker("project", "prep.normal", SLOTS, environment):
        wait_until_done(database, count // 10)  # its start is not counted
        began = _processor()
        wait_until_done(database, count)
        spent = _processor() - began
    return 1000 * spent / (count - count // 10)


def _processor() -> float:
    """Seconds used so far by the children of this process: worker, broker, database server."""
    seconds = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        seconds += times.user + times.system
    return seconds


def main() -> None:
    line = parser("bench.allowances", __doc__, "", "--count 2000 --rounds 3 --database sqlite")
    line.add_argument("--count", type=int, default=4000, help="probes a run (default 4000)")
    line.add_argument("--rounds", type=int, default=5, help="rounds, alternating (default 5)")
    line.add_argument("--database", choices=("sqlite", "postgres", "both"), default="both")
    options = line.parse_args()
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start, {options.rounds} rounds")
    print("| database | allowances | CPU ms an execution | more than with none | |\n|---|---|---|---|---|")
    for kind in kinds(options.database):
        spent: defaultdict[str, list[float]] = defaultdict(list)
        with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
            root = Path(folder)
            root.chmod(0o755)
            with broker(root / "redis") as redis, databases(kind, root) as made:
                for _ in range(options.rounds):
                    for name, text in ALLOWANCES.items():
                        spent[name].append(milliseconds(text, options.count, redis, made.make()))
        for name, each in spent.items():
            more = median(mine - none for mine, none in zip(each, spent["none"], strict=True))
            print(f"| {NAMES[kind]} | {name} | {median(each):.3f} ({min(each):.3f} - {max(each):.3f}) "
                  f"| {more:+.3f} | {AIM.verdict(more)} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
