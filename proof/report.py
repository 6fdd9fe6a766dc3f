"""The page of the proof, made from the runs stored beside it: docs/proof-runs.json, docs/proof.md."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from proof import pressure
from proof.checker import RULES, Violation
from proof.records import History
from proof.recovery import seconds_until_work_went_on


@dataclass(frozen=True)
class RunReport:
    """The result of one run, as it is stored."""

    seed: int
    minutes: float
    database: str
    executions: Mapping[str, int]
    attempts: Mapping[str, int]
    failures: Mapping[str, int]
    edits: int
    requests: int
    recovery: Mapping[str, Sequence[float]]
    pressure: Mapping[str, int] = field(default_factory=dict)
    violations: Sequence[str] = field(default_factory=list)


def of(seed: int, minutes: float, database: str, seen: History, found: Iterable[Violation]) -> RunReport:
    """The stored result of a run."""
    recovery: defaultdict[str, list[float]] = defaultdict(list)
    for fault in seen.faults:
        recovery[fault.kind].append(round(seconds_until_work_went_on(fault, seen.attempts), 1))
    return RunReport(
        seed, minutes, database,
        executions=_counted(execution.state for execution in seen.executions),
        attempts=_counted(attempt.outcome for attempt in seen.attempts),
        failures=_counted(attempt.error for attempt in seen.attempts if attempt.error),
        edits=len([edit for edit in seen.edits if edit.began]),
        requests=len(seen.requests),
        recovery=dict(sorted(recovery.items())),
        pressure=pressure.counted(seen),
        violations=[f"{violation.rule}: {violation.text}" for violation in found],
    )  # fmt: skip


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def runs_file(page: Path) -> Path:
    """Where the runs of a page are stored: `proof-runs.json` beside `proof.md`."""
    return page.with_name(f"{page.stem}-runs.json")


def add(page: Path, report: RunReport) -> None:
    """Store this run (replacing one with the same seed, length and database), and write the page."""
    kept = [run for run in read(page) if _same(run) != _same(report)] + [report]
    runs_file(page).write_text(json.dumps([asdict(run) for run in kept], indent=1) + "\n")
    page.write_text(written(kept))


def read(page: Path) -> list[RunReport]:
    file = runs_file(page)
    return [RunReport(**run) for run in json.loads(file.read_text())] if file.exists() else []


def _same(run: RunReport) -> tuple[int, float, str]:
    return run.seed, run.minutes, run.database


def written(runs: Sequence[RunReport]) -> str:
    """The text of the page."""
    parts = [HEAD, _totals(runs), "## Runs\n", _table(RUN_COLUMNS, map(_run_row, runs)),
             "## Faults, and how long work stood still\n", RECOVERY,
             _table(FAULT_COLUMNS, _fault_rows(runs)), "## What was checked\n", _rules(),
             PRESSURE, _table(("", "in all runs"), _pressure_rows(runs)),
             "## Violations\n", _violations(runs), NOT_COVERED]  # fmt: skip
    return "\n".join(parts)


def summary(run: RunReport) -> str:
    """A run in a few lines, for the terminal."""
    lines = [f"{_counts(run.executions)}; {_counts(run.attempts)} attempts; {run.edits} edits of limits"]
    lines += [_recovery_line(kind, times) for kind, times in run.recovery.items()]
    if run.failures:
        lines.append(f"attempts that failed, by kind: {_counts(run.failures)}")
    lines += [f"VIOLATION {violation}" for violation in run.violations]
    lines.append(f"{len(run.violations)} violations")
    return "\n".join(lines)


def _recovery_line(kind: str, times: Sequence[float]) -> str:
    return f"{kind}: {len(times)} times, work went on after {median(times):.1f} s, at most {max(times):.1f} s"


def _totals(runs: Sequence[RunReport]) -> str:
    minutes = sum(run.minutes for run in runs)
    faults = sum(len(times) for run in runs for times in run.recovery.values())
    executions = sum(sum(run.executions.values()) for run in runs)
    attempts = sum(sum(run.attempts.values()) for run in runs)
    violations = sum(len(run.violations) for run in runs)
    return (
        f"**{minutes:g} minutes of faults in {len(runs)} runs: {executions:,} executions, "
        f"{attempts:,} attempts, {faults} faults, {violations} violations.**\n"
    )


RUN_COLUMNS = (
    "command", "executions", "attempts", "failures", "limits edited", "requests for papers", "violations",
)  # fmt: skip
FAULT_COLUMNS = ("fault", "times", "median", "longest")


def _run_row(run: RunReport) -> Sequence[str]:
    command = f"`python -m proof --seed {run.seed} --minutes {run.minutes:g} --database {run.database}`"
    return (command, _counts(run.executions), _counts(run.attempts), _counts(run.failures), str(run.edits),
            str(run.requests), str(len(run.violations)))  # fmt: skip


def _fault_rows(runs: Iterable[RunReport]) -> Iterable[Sequence[str]]:
    times: defaultdict[str, list[float]] = defaultdict(list)
    for run in runs:
        for kind, seconds in run.recovery.items():
            times[kind] += seconds
    for kind, all_of_them in sorted(times.items()):
        yield (kind, str(len(all_of_them)), f"{median(all_of_them):.1f} s", f"{max(all_of_them):.1f} s")


def _rules() -> str:
    return "".join(f"- {' '.join(str(rule.__doc__).split())}\n" for rule in RULES)


def _pressure_rows(runs: Iterable[RunReport]) -> Iterable[Sequence[str]]:
    pressure: Counter[str] = Counter()
    for run in runs:
        pressure.update(run.pressure)
    return ((edge, f"{times:,}") for edge, times in pressure.items())


def _violations(runs: Sequence[RunReport]) -> str:
    found = [f"- seed {run.seed}: {violation}\n" for run in runs for violation in run.violations]
    return "".join(found) or "None.\n"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name or 'without a kind'}" for name, count in sorted(counts.items()))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


HEAD = """# The proof

Written by `python -m proof --write docs/proof.md` from the runs in `proof-runs.json`; do not edit.

A run starts a broker, a database, four groups of workers (three of threads, one prefork), a worker for
periodic jobs and beat, each a process of its own that is restarted when it ends. Probes of every phase,
priority, key and cost, and papers fetched from a test server, are enqueued all the time; limits are
raised and lowered all the time; and random faults are injected into all of it. When the faults stop, the
work must drain. Then a checker that imports nothing of the product reads the database's tables, the probes'
own traces and the paper server's own log, and looks for broken promises. The same seed repeats the
plan: which fault, where, and at which second.
"""

RECOVERY = """Leases last 8 s here, 90 s by default. The time is counted from the fault, its own duration
included: the longest time in which nothing started, or until the last of the work lost with it
was started again (without work that costs requests: it may wait for the budget). Faults overlap, so
one may be charged with the pause of another.
"""

PRESSURE = """A rule that is never tested at its limit proves nothing. This is how often it was; 0
means that the rule had nothing to check.
"""

NOT_COVERED = """## What this does not show

- One machine: one clock, one kernel, the loopback network. No partition between workers.
- *Full disk* is a limit on the size of files (RLIMIT_FSIZE) of one worker's processes: writes fail as
  on a full disk, with another error number. Only steps of papers write files: one that fails because of it is
  among the failures as `storage`. The database's and the broker's disks are never full.
- *Wrong clock* shifts the clock of the Python code of one worker, not the kernel's, and is left out on
  SQLite, where workers use their own clocks on one machine.
- *Deliver again and late* sends messages as old as the run.
- A worker that lost its lease may continue for a while; its external effects in that time are not promised
  to happen once, and are counted under no cap. `guarantees.md` says so.
- Leases that no worker started leave no record, so order and caps are checked by attempts that started.
- The order of starts is checked between high and low work of one phase only, and strictly only where
  no message can have been lost.
- Limits are edited once every worker has registered, not before.
- No unfinished work is cancelled, retried by a person or given another priority during a run.
"""
