"""`python -m bench.limits`: what each kind of limit costs the work under it.

A real worker and a real broker. Every kind is compared with no limit at all, in the same run, round by
round. A limit that binds lets as many probes run at once as run without it.

Of allowances, two and five of which apply to each execution and none binds, the processor time that they add
is measured, of a played worker of 8 and of 50 slots and, with PostgreSQL, of its server (`bench.allowed`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from bench import command_line
from bench.child import ask
from bench.contestants import broker, fleet_environment, worker
from bench.databases import NAMES, Database, databases, kinds
from bench.measures import Aim, rows_of, spread, table
from bench.progress import rate, wait_until_done
from queuemgr.local.private_servers import RedisServer

NO_LIMIT, NO_CAPS = "no limit", "no caps"
AIM, CAPS_AIM = Aim(0.9, at_least=True), Aim(0.85, at_least=True)
UNLIMITED: Mapping[str, Mapping[str, Any]] = {"fleet": {"max_running": 0}}


@dataclass(frozen=True)
class Case:
    """A kind of limit: its rows, the number of keys of the probes, how many of those are full, and how many
    slots are idle because of it."""

    name: str
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: UNLIMITED)
    keys: int = 0
    saturated: int = 0
    idle_slots: int = 0


@dataclass(frozen=True)
class Work:
    """The load in every case: `count` probes of `seconds` each, `at_once` at the same time."""

    count: int
    seconds: float
    slots: int


Run = Callable[[Case, Work], float]
"""Probes a second."""
Allowed = Callable[[int, int], dict[str, list[float]]]
"""Of so many slots and rounds, the milliseconds of processor of an execution, by case."""


class Unknown(Exception):
    """This version of the queue has no such field of a limit."""


def kinds_of_limit(slots: int, keys: int) -> list[Case]:
    """The cases, the one without limits first.

    Of the keys with a binding cap nine in ten are full: a lease of a simulated worker holds each of them,
    and older work waits for it. The others have capacity for more than there are slots.
    """
    full = max(0, min(keys * 9 // 10, keys - 2 * slots))
    return [
        Case(NO_LIMIT),
        Case("fleet limit, binding", {"fleet": {"max_running": slots}}, idle_slots=slots),
        Case(f"{keys:,} keys, no limit", keys=keys),
        Case(
            f"{keys:,} keys, limit of 1 each, {full:,} full",
            {**UNLIMITED, "key:*": {"max_running": 1}},
            keys=keys,
            saturated=full,
        ),
        Case("fleet rate, not binding", {"fleet": {"max_running": 0, "rate": FAR_ABOVE}}),
        Case(
            f"{keys:,} keys, a rate each, not binding", {**UNLIMITED, "key:*": {"rate": FAR_ABOVE}}, keys=keys
        ),
    ]


FAR_ABOVE = "100000/s burst 1000"

CAPS = [
    Case(NO_CAPS, keys=50),
    Case(
        "fleet, phase and key caps, none binding",
        {name: {"max_running": 1000} for name in ("fleet", "phase:prep", "key:*")},
        keys=50,
    ),
]

PROCESSOR_AIM = Aim(0.1)
"""Milliseconds of processor that allowances may add to an execution."""


TWO = ("1,000,000,000 tokens/minute", "1,000,000 usd/day")
FIVE = (*TWO, "1,000,000,000 tokens/day", "1,000,000 usd/month", "1,000,000,000,000 bytes/hour")
ALLOWANCES = {"none": "", "two": "; ".join(TWO), "five": "; ".join(FIVE)}
ALLOWANCE_SLOTS = (8, 50)
ALLOWANCE_ROUNDS, ALLOWANCE_EXECUTIONS = 15, 400
"""Rounds, for each of those asked for, and executions of a case in each."""


def main() -> None:
    options = _options()
    console = Console(width=120, stderr=options.json)
    console.print(
        f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start, {options.rounds} rounds"
    )
    report: dict[str, Any] = {}
    for kind in kinds(options.database):
        with _bench(kind) as (run, allowed):
            report[kind] = dict(_groups(options, console, kind, run, allowed))
    if options.json:
        json.dump(report, sys.stdout, indent=2)


def _groups(
    options: argparse.Namespace, console: Console, kind: str, run: Run, allowed: Allowed
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """What was asked for, as data."""
    work, rounds = Work(options.count, options.seconds, options.slots), options.rounds
    if options.only in ("", "limits"):
        cases = kinds_of_limit(work.slots, options.keys)
        yield "limits", _group(console, kind, run, cases, work, rounds, AIM)
    if options.only in ("", "caps"):
        caps = Work(400 if options.quick else 2000, 0.2, 16)
        yield "caps", _group(console, kind, run, CAPS, caps, rounds, CAPS_AIM)
    if options.only in ("", "allowances"):
        for slots in ALLOWANCE_SLOTS:
            used = allowed(slots, rounds * ALLOWANCE_ROUNDS)
            yield (
                f"allowances, {slots} slots",
                _processor_group(console, f"{NAMES[kind]}, {slots} slots", used),
            )


def _options() -> argparse.Namespace:
    parser = command_line.parser("bench.limits", __doc__, "--quick --count 2000 --database sqlite")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, alternating (default 3)")
    parser.add_argument("--count", type=int, default=5000, help="probes a run (default 5000)")
    parser.add_argument(
        "--seconds", type=float, default=0, help="seconds each takes, such as 0.005 (default 0)"
    )
    parser.add_argument("--slots", type=int, default=8, help="probes at once (default 8)")
    parser.add_argument("--keys", type=int, default=1000, help="limit keys (default 1000)")
    parser.add_argument(
        "--quick", action="store_true", help="400 probes instead of 2,000 for caps that do not bind"
    )
    parser.add_argument(
        "--only", choices=("limits", "caps", "allowances"), default="", help="one kind of comparison"
    )
    parser.add_argument("--database", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    return parser.parse_args()


@contextmanager
def _bench(kind: str) -> Iterator[tuple[Run, Allowed]]:
    """A private broker, databases of this kind, and functions that run a case on them, and allowances."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        with broker(root / "redis") as redis, databases(kind, root) as made:
            yield (
                lambda case, work: measured(case, work, redis, made.make()),
                lambda slots, rounds: with_allowances(slots, rounds, redis, made.make()),
            )


def with_allowances(
    slots: int, rounds: int, redis: RedisServer, database: Database
) -> dict[str, list[float]]:
    """Milliseconds of processor of an execution in each round, by case, the one without allowances first."""
    environment = fleet_environment(redis, database, high_priority_reserved=0)
    question = {"cases": ALLOWANCES, "slots": slots, "rounds": rounds, "executions": ALLOWANCE_EXECUTIONS}
    found: dict[str, list[float]] = ask("bench.allowed", environment, do="play", **question)
    return found


def _processor_group(console: Console, where: str, used: Mapping[str, list[float]]) -> list[dict[str, Any]]:
    """Print how much more of a processor each case takes than the first."""
    first = next(iter(used))
    none = used[first]
    more = {
        name: median(mine - first for mine, first in zip(each, none, strict=True))
        for name, each in used.items()
    }
    verdicts = {name: PROCESSOR_AIM.verdict(each) for name, each in more.items() if name != first}
    rows = [
        (name, str(spread(each)), f"{more[name]:+.3f}", verdicts.get(name, "")) for name, each in used.items()
    ]
    title = f"{where}: processor time of an execution, milliseconds, by its allowances"
    console.print(table(title, ["", "median", "more than with none", ""], rows))
    return [{"name": name, "milliseconds": each, "more": more[name]} for name, each in used.items()]


def _group(
    console: Console, kind: str, run: Run, cases: Sequence[Case], work: Work, rounds: int, aim: Aim
) -> list[dict[str, Any]]:
    """Alternate between these cases, and print how they compare to the first."""
    rates: dict[str, list[float]] = {case.name: [] for case in cases}
    skipped: dict[str, str] = {}
    for _ in range(rounds):
        for case in cases:
            if case.name in skipped:
                continue
            try:
                rates[case.name].append(run(case, work))
            except Unknown as error:
                skipped[case.name] = str(error)
    first, *others = [case.name for case in cases]
    measured = {name: found for name, found in rates.items() if found}
    rows = rows_of(measured, first, dict.fromkeys(others, aim))
    title = f"{NAMES[kind]}: {work.count:,} of {work.seconds:g} s, {work.slots} at once"
    cells = [row.cells() for row in rows]
    console.print(table(title, ["", "rate", f"ratio to {first}", ""], cells))
    keyed = {case.name: rates[case.name] for case in cases if case.keys and rates[case.name]}
    if len(keyed) < len(rows):
        first = next(iter(keyed))
        cells = [row.cells() for row in rows_of(keyed, first)]
        console.print(table("The same, among as many keys", ["", "rate", f"ratio to {first}", ""], cells))
    for name, reason in skipped.items():
        console.print(f"left out: {name} ({reason})")
    return [row.as_json() for row in rows]


def measured(case: Case, work: Work, redis: RedisServer, database: Database) -> float:
    """Probes a second of a fresh fleet under these limits, from the first start to the last end.

    Raises `Unknown` when this version does not have such limits.
    """
    environment = fleet_environment(
        redis, database, high_priority_reserved=0, lease_seconds=86_400, max_workers=100_000
    )
    answer = ask(
        "bench.limited", environment, do="prepare", limits=case.limits, keys=case.keys,
        saturated=case.saturated, count=work.count, seconds=work.seconds,
    )  # fmt: skip
    if answer["unknown"]:
        raise Unknown(f"a limit has no {', '.join(answer['unknown'])} yet")
    with worker("project", "prep.normal", work.slots + case.idle_slots, environment):
        wait_until_done(database, work.count)
    return rate(database)


if __name__ == "__main__":
    main()
