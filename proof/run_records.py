"""The results of runs, as they are stored in `proof-runs.json` beside the page: each added when it is over,
and joined with those of other machines."""

from __future__ import annotations

import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from proof import matrix, pressure
from proof.records import History, is_periodic
from proof.recovery import recovery_from
from proof.rules.rates import uses
from proof.rules.violation import Violation

FORMAT = 2
"""Of the file. Runs of another format are of an earlier release, and are dropped."""


@dataclass(frozen=True)
class RunReport:
    """The result of one run, as it is stored.

    `settings` are what it was started with and what the fleet ran under; `recovery` are, for each fault of a
    kind: the seconds until work continued, the bound of that, and until the last of the work lost in it was
    started again; `rates_used`, for each rated limit of the calm stretch, its starts, how many its rate
    allowed while work waited, and their share; `matrix` are the attempts of hostile code, by kind of misdeed
    and pool.
    """

    seed: int
    minutes: float
    database: str
    commit: str
    settings: Mapping[str, Any]
    executions: Mapping[str, int]
    attempts: Mapping[str, int]
    failures: Mapping[str, int]
    edits: int
    requests: int
    orders: Mapping[str, int]
    recovery: Mapping[str, Sequence[Sequence[float]]]
    rates_used: Mapping[str, Sequence[float]] = field(default_factory=dict)
    pressure: Mapping[str, int] = field(default_factory=dict)
    matrix: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    violations: Sequence[str] = field(default_factory=list)

    @property
    def command(self) -> str:
        """The command that repeats its plan."""
        extra = [f"--faults '{','.join(self.settings['faults'])}'"] if self.settings.get("faults") else []
        extra += ["--one-host"] if self.settings.get("one_host") else []
        extra += [f"--pooler {self.settings['pooler']}"] if self.settings.get("pooler") else []
        most = f"python -m proof --seed {self.seed} --minutes {self.minutes:g} --database {self.database}"
        return " ".join([most, *extra])


def of(
    seed: int, minutes: float, database: str, seen: History, found: Iterable[Violation],
    settings: Mapping[str, Any] | None = None,
) -> RunReport:  # fmt: skip
    """The stored result of a run."""
    recovery: defaultdict[str, list[list[float]]] = defaultdict(list)
    calm = seen.calm_keys
    counted = (attempt for attempt in seen.attempts if not is_periodic(attempt.key))
    attempts = [attempt for attempt in counted if attempt.key not in calm]
    for fault in seen.faults:
        recovery[fault.kind].append([round(value, 1) for value in recovery_from(fault, attempts)])
    return RunReport(
        seed, minutes, database, commit(), dict(settings or {}),
        executions=_counted(execution.state for execution in seen.executions),
        attempts=_counted(attempt.outcome for attempt in seen.attempts),
        failures=_counted(attempt.error for attempt in seen.attempts if attempt.error),
        edits=len([edit for edit in seen.edits if edit.began]),
        requests=len(seen.requests),
        orders=_counted(order.verb for order in seen.orders if order.changed),
        recovery=dict(sorted(recovery.items())),
        rates_used={u.limit: (u.starts, round(u.allowed, 1), round(u.share, 3)) for u in uses(seen)},
        pressure=pressure.counted(seen),
        matrix=matrix.counted(seen),
        violations=[f"{violation.rule}: {violation.text}" for violation in found],
    )  # fmt: skip


def commit() -> str:
    """The commit this runs from, with `+` if files were changed since."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--match", ""]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def file_of(page: Path) -> Path:
    """Where the runs of a page are stored: `proof-runs.json` beside `proof.md`."""
    return page.with_name(f"{page.stem}-runs.json")


def read(file: Path) -> list[RunReport]:
    """The runs stored in a file, none if there is no file or it is of another format. Raises `ValueError`
    if it is no JSON."""
    stored = json.loads(file.read_text()) if file.exists() else {}
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        return []
    return [RunReport(**run) for run in stored["runs"]]


def joined(*lists: Sequence[RunReport]) -> list[RunReport]:
    """All of these runs; of those with the same command, the last."""
    by_command = {run.command: run for runs in lists for run in runs}
    return list(by_command.values())


def save(file: Path, runs: Sequence[RunReport]) -> None:
    stored = {"format": FORMAT, "runs": [asdict(run) for run in runs]}
    file.write_text(json.dumps(stored, indent=1) + "\n")
