"""`python -m bench.dispatch`: what granting one lease costs, by backlog and saturation.

No Celery and no messages: all slots of a simulated worker are busy, one becomes free, one lease is granted.
Every setup has its own database with the same number of leases; the setups alternate.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from bench import command_line
from bench.child import ask
from bench.databases import NAMES, Database, databases, kinds
from bench.measures import Aim, Spread, Typical, ratios, table, typical

BASE_ROWS, OPEN_KEYS = 10_000, 10
MODES = ("finish", "dispatch")
AIM = Aim(1.5)


@dataclass(frozen=True)
class Setting:
    """A backlog: its rows are spread over the open keys and over `waiting_full` of the saturated keys.

    Saturated keys hold one lease each; the other leases are spread over the open keys.
    """

    rows: int
    waiting_full: int
    held_full: int
    open_keys: int
    leases: int

    @property
    def name(self) -> str:
        if self.waiting_full:
            keys = f"{self.waiting_full + self.open_keys:,} keys, {self.waiting_full:,} saturated"
        elif self.held_full:
            keys = f"{self.open_keys} keys; leases as with the saturated"
        else:
            keys = f"{self.open_keys} keys"
        return f"{self.rows:,} rows, {keys}"


@dataclass(frozen=True)
class Found:
    """The measurements of one setup."""

    setting: Setting
    load_seconds: float
    first_ms: float
    after_tick_ms: float
    times: Mapping[str, Typical]
    ratio: Mapping[str, Spread]

    def cells(self) -> list[str]:
        values = [
            cell
            for mode in MODES
            for cell in (
                f"{self.times[mode].median:.2f}",
                f"{self.times[mode].p99:.2f}",
                str(self.ratio[mode]),
            )
        ]
        once = [f"{self.first_ms:.1f}", f"{self.after_tick_ms:.2f}", f"{self.load_seconds:.0f} s"]
        return [self.setting.name, *values, *once]


COLUMNS = (
    "", "finish", "p99", "ratio to first", "dispatch", "p99", "ratio to first", "very first",
    "after a tick", "load",
)  # fmt: skip


def main() -> None:
    options = _options()
    console = Console(width=170, stderr=options.json)
    settings = settings_of(options.rows, options.keys)
    repetitions = -(-options.repetitions // options.rounds)
    console.print(f"{options.keys:,} leases in every setting, {options.rounds} rounds of "
                  f"{repetitions} finishes and {repetitions} dispatches; milliseconds, "
                  f"load {os.getloadavg()[0]:.1f} at the start")  # fmt: skip
    report: dict[str, Any] = {}
    for kind in kinds(options.database):
        found = measure(kind, settings, options.rounds, repetitions)
        console.print(table(NAMES[kind], COLUMNS, [each.cells() for each in found]))
        _judge(console, found)
        report[kind] = [asdict(each) for each in found]
    if options.json:
        json.dump(report, sys.stdout, indent=2)


def _options() -> argparse.Namespace:
    parser = command_line.parser("bench.dispatch", __doc__, "--database postgres --rows 10000 100000")
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000],
        help="rows waiting; the saturated keys come with the most (default 10^4, 10^5, 10^6)",
    )  # fmt: skip
    parser.add_argument(
        "--keys", type=int, default=2000, help=f"keys, all but {OPEN_KEYS} saturated (default 2000)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds, alternating (default 5)")
    parser.add_argument(
        "--repetitions", type=int, default=300, help="of each measure, in all rounds (default 300)"
    )
    parser.add_argument("--database", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    return parser.parse_args()


def settings_of(rows: Sequence[int], keys: int) -> list[Setting]:
    """The base setup first, then the sizes, and last the saturated setup at the largest size.

    The base comes twice: with its leases on its own keys, and with the leases of the saturated setup.
    """
    full = keys - OPEN_KEYS
    sizes = sorted({min(BASE_ROWS, *rows), *rows})
    few = [Setting(size, 0, 0, OPEN_KEYS, keys) for size in sizes]
    alike = Setting(sizes[0], 0, full, OPEN_KEYS, keys)
    return [few[0], alike, *few[1:], Setting(sizes[-1], full, full, OPEN_KEYS, keys)]


def measure(kind: str, settings: Sequence[Setting], rounds: int, repetitions: int) -> list[Found]:
    """Load every setup, then alternate between them."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        with databases(kind, root) as made:
            made_databases = [made.make() for _ in settings]
            loaded = [_load(s, database) for s, database in zip(settings, made_databases, strict=True)]
            played: list[list[dict[str, list[float]]]] = [[] for _ in settings]
            for _ in range(rounds):
                for results, setting, database in zip(played, settings, made_databases, strict=True):
                    results.append(_child(setting, database, do="play", repetitions=repetitions))
    return [
        found_of(setting, load, rounds_of, played[0])
        for setting, load, rounds_of in zip(settings, loaded, played, strict=True)
    ]


def _load(setting: Setting, database: Database) -> dict[str, float]:
    done: dict[str, float] = _child(setting, database, do="load", **asdict(setting))
    return done


def _child(setting: Setting, database: Database, **question: Any) -> Any:
    environment = {
        **os.environ,
        **database.environment,
        "SLUICE_MAX_WORKERS": str(setting.leases),
        "SLUICE_HIGH_PRIORITY_RESERVED": "0",
        "SLUICE_DAILY_BUDGET": "0",
        "SLUICE_LEASE_SECONDS": "86400",
        "SLUICE_LOG_LEVEL": "WARNING",
    }
    return ask("bench.backlog", environment, **question)


def found_of(
    setting: Setting,
    load: Mapping[str, float],
    played: Sequence[Mapping[str, Sequence[float]]],
    base: Sequence[Mapping[str, Sequence[float]]],
) -> Found:
    """The measurements of a setup, with ratios to those of the base."""
    pooled: dict[str, list[float]] = defaultdict(list)
    for results in played:
        for measure_of, times in results.items():
            pooled[measure_of] += times
    return Found(
        setting=setting,
        load_seconds=load["load_seconds"],
        first_ms=load["first_ms"],
        after_tick_ms=median(pooled["after_tick"]),
        times={mode: typical(pooled[mode]) for mode in MODES},
        ratio={
            mode: ratios([median(r[mode]) for r in played], [median(r[mode]) for r in base]) for mode in MODES
        },
    )


def _judge(console: Console, found: Sequence[Found]) -> None:
    saturated = found[-1]
    for mode in MODES:
        ratio = saturated.ratio[mode]
        against = saturated.times[mode].median / found[1].times[mode].median
        console.print(
            f"{mode}: {saturated.setting.name} takes {ratio} times as long as "
            f"{found[0].setting.name} ({AIM.verdict(ratio.median)}), "
            f"{against:.2f} times as long as with the same leases"
        )


if __name__ == "__main__":
    main()
