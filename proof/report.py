"""The page of the proof, made from the runs stored beside it: docs/proof-runs.json, docs/proof.md."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import median

from proof import matrix, pressure, run_records
from proof.checker import RULES
from proof.kinds import KINDS
from proof.plan import CALM_LIMITS
from proof.run_records import RunReport


def add(page: Path, *reports: RunReport) -> None:
    """Store these runs (replacing those with the same command), and write the page."""
    file = run_records.file_of(page)
    kept = run_records.joined(run_records.read(file), reports)
    run_records.save(file, kept)
    page.write_text(written(kept))


def written(runs: Sequence[RunReport]) -> str:
    """The text of the page."""
    parts = [HEAD, _totals(runs), "## Runs\n", _table(RUN_COLUMNS, map(_run_row, runs)), SETTINGS,
             _settings(runs), "## Faults, and how long work stood still\n", RECOVERY,
             _table(FAULT_COLUMNS, _fault_rows(runs)), _not_drawn(),
             "## How much of a rate was used\n", USE, _table(USE_COLUMNS, _use_rows(runs)),
             "## What was checked\n", _rules(),
             PRESSURE, _table(("", "in all runs"), _pressure_rows(runs)),
             "## The matrix of hostile code\n", MATRIX,
             _table(matrix.HEADINGS, matrix.rows([(run.database, run.matrix) for run in runs])),
             "## Violations\n", _violations(runs), SIMULATED, NOT_COVERED]  # fmt: skip
    return "\n".join(parts)


def summary(run: RunReport) -> str:
    """A run in a few lines, for the terminal."""
    lines = [f"{_counts(run.executions)}; {_counts(run.attempts)} attempts; {run.edits} edits of limits"]
    lines += [_recovery_line(kind, times) for kind, times in run.recovery.items()]
    lines += [
        f"rate {rate} of {name.strip('`')}: {judged} stretches judged, {middle} of it used, at least {least}"
        for name, rate, judged, middle, least in _use_rows([run])
    ] or ["no use of a rate was judged: the machine had no processor to spare, or work was left"]
    if unbound := pressure.unbound(run.pressure):
        lines.append(f"NOTHING WAS STOPPED by allowances of {'; '.join(unbound)}: not put to the test")
    if run.failures:
        lines.append(f"attempts that failed, by kind: {_counts(run.failures)}")
    lines += [f"VIOLATION {violation}" for violation in run.violations]
    lines.append(f"{len(run.violations)} violations")
    return "\n".join(lines)


def _recovery_line(kind: str, times: Sequence[Sequence[float]]) -> str:
    seconds, turn = [each[0] for each in times], max(each[2] for each in times)
    again = f"; lost work was started again within {turn:.1f} s" if turn else ""
    after = f"work continued after {_middle(seconds)}, at most {_most(seconds)}"
    return f"{kind}: {len(times)} times, {after}{again}"


def _totals(runs: Sequence[RunReport]) -> str:
    minutes = sum(run.minutes for run in runs)
    faults = sum(len(times) for run in runs for times in run.recovery.values())
    executions = sum(sum(run.executions.values()) for run in runs)
    attempts = sum(sum(run.attempts.values()) for run in runs)
    orders = sum(sum(run.orders.values()) for run in runs)
    violations = sum(len(run.violations) for run in runs)
    return (
        f"**{minutes:g} minutes of faults in {len(runs)} runs: {executions:,} executions, "
        f"{attempts:,} attempts, {orders:,} orders of an operator, {faults} faults, "
        f"{violations} violations.**\n"
    )


RUN_COLUMNS = (
    "command", "commit", "executions", "attempts", "failures", "limits edited", "orders",
    "requests for papers", "violations",
)  # fmt: skip
FAULT_COLUMNS = ("fault", "times", "median", "longest", "bound", "lost work started again, longest")


USE_COLUMNS = ("limit", "rate", "stretches judged", "median", "least")


def _run_row(run: RunReport) -> Sequence[str]:
    return (f"`{run.command}`", run.commit, _counts(run.executions), _counts(run.attempts),
            _counts(run.failures), str(run.edits), _counts(run.orders), str(run.requests),
            str(len(run.violations)))  # fmt: skip


def _use_rows(runs: Iterable[RunReport]) -> Iterator[Sequence[str]]:
    """By the rule of the limit: keys of one pattern are one row."""
    shares: defaultdict[str, list[float]] = defaultdict(list)
    for limit, (_, _, share) in chain.from_iterable(run.rates_used.items() for run in runs):
        shares[rule_of(limit)].append(share)
    for name, found in shares.items():
        rate = CALM_LIMITS[name]["rate"] if name in CALM_LIMITS else ""
        yield (f"`{name}`", rate, str(len(found)), f"{median(found):.1%}", f"{min(found):.1%}")


def rule_of(limit: str) -> str:
    """The pattern of a key of the calm stretch, or its own name."""
    patterns = (name for name in CALM_LIMITS if name.endswith("*") and limit.startswith(name[:-1]))
    return next(patterns, limit)


def _settings(runs: Iterable[RunReport]) -> str:
    """The settings of the fleets, each kind of fleet once."""
    fleets = Counter(
        ", ".join(f"{name} {value}" for name, value in run.settings.get("fleet", {}).items()) for run in runs
    )
    return "".join(f"- {times} runs: {text}\n" for text, times in fleets.items() if text) or "None yet.\n"


def _fault_rows(runs: Iterable[RunReport]) -> Iterator[Sequence[str]]:
    times: defaultdict[str, list[Sequence[float]]] = defaultdict(list)
    for kind, those in chain.from_iterable(run.recovery.items() for run in runs):
        times[kind] += those
    bounds = {kind.name: kind.longest for kind in KINDS}
    for kind, all_of_them in sorted(times.items()):
        seconds, turns = [each[0] for each in all_of_them], [each[2] for each in all_of_them]
        bound = f"{bounds[kind]:g} s" if kind in bounds else ""
        yield (kind, str(len(all_of_them)), _middle(seconds), _most(seconds), bound, _most(turns))


def _middle(seconds: Sequence[float]) -> str:
    return f"{median(seconds):.1f} s"


def _most(seconds: Sequence[float]) -> str:
    return f"{max(seconds):.1f} s" if max(seconds) else ""


def _not_drawn() -> str:
    """The kinds of faults that are not survived yet, and why."""
    known = "".join(f"- *{kind.name}*: {kind.fails}\n" for kind in KINDS if kind.fails)
    return f"{NOT_DRAWN}\n{known}" if known else ""


def _rules() -> str:
    return "".join(f"- {' '.join(str(rule.__doc__).split())}\n" for rule in RULES)


def _pressure_rows(runs: Iterable[RunReport]) -> Iterable[Sequence[str]]:
    edges: Counter[str] = Counter()
    for run in runs:
        edges.update(run.pressure)
    return ((edge, f"{times:,}") for edge, times in edges.items())


def _violations(runs: Sequence[RunReport]) -> str:
    found = [f"- seed {run.seed}: {violation}\n" for run in runs for violation in run.violations]
    return "".join(found) or "None.\n"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name or 'without a kind'}" for name, count in sorted(counts.items()))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


HEAD = """# The proof

Written by `python -m proof --write docs/proof.md` from the runs in `proof-runs.json`; do not edit. Runs of an
earlier release are dropped.

A run starts a broker, a database, four groups of workers (three of threads, one prefork), a worker for
periodic jobs and beat, each a process of its own that is restarted when it ends; on PostgreSQL each
group, the broker and the database on a host of its own (network, PID and host name namespaces, with a
switch between them that drops and delays packets), and one worker behind PgBouncer (in transaction mode
for even seeds, in session mode for odd ones). Probes of every phase, priority, key and cost, and papers
fetched from a test server, are enqueued all the time; three schedules are due every few seconds and
minutes, two processes call for the same unique work, and batches in batches are opened; fleet, phases, keys,
patterns, tenants and batches have allowances of tokens, dollars and bytes that bind, rolling and by the
calendar, per minute, hour and day; limits are raised
and lowered, and executions cancelled, retried and reprioritised by an operator all the time; and random
faults are injected into all of it, each kind once before any comes again. When the faults stop, the work
must drain, and a calm stretch shows whether rates are used. Then a checker that imports nothing of the
product reads the database's tables, the probes' own traces and the paper server's own log, and looks for
broken promises. The same seed repeats the plan: which fault, where, and at which second.

Thirty minutes draw each kind more than four times. Runs may be short and on several machines:
`--join FILE` adds the runs stored elsewhere. `--faults "kill workers,code that raises"` draws only these.
"""

SETTINGS = """The fleets ran with these settings, which are shorter than the defaults so that recovery can be
watched:
"""

RECOVERY = """The time is counted from the fault, its own duration included: the longest time in which nothing
started, or until the last lease lost in it had ended, so that its work waited again. A pause beyond the bound
is a violation. The bound of a fault that stops all work is its longest duration, then a lease, a tick and
the time-out of a broker's or a database's connection; of one that takes a part of the fleet the latter alone,
however long it lasts; where packets are lost, 10 s more, as TCP sends them again after a time as long as the
outage; where a host may be cut off while it holds the scheduler lock, also the 30 s after which PostgreSQL
ends its transaction. Faults that overlap lengthen it by their own duration and no more, so
that the longest pause of a kind may be longer than the bound of one alone.

When lost work was started again is shown and not bounded: it waits for its turn behind work of higher
priority, its limits and its budget.
"""

NOT_DRAWN = """These faults are left out of the draw, unless `--faults` names them, since the product does not
survive them yet:
"""

USE = """After the faults, when all work is done, a run ends with a calm stretch: the fleet starts again with
a poll interval of a minute, and work that takes no time is enqueued under rates of its own with slots to
spare: under one slow rate, then under one fast, then under one each of twenty keys. Counted are the starts
from the acknowledgement of a key's work to the last of its starts, against what the rate allows in that time
less a second for the first. Where that is less than 0.98, rounded down to a whole start, the time is taken
off in which every slot ran something, or the machine had no processor to spare (less than a fifth idle over a
quarter of a second): if 10 s or more remain, less than 0.98 of them is a violation, otherwise the key is not
judged.
"""

PRESSURE = """A rule that is never tested at its limit proves nothing. This is how often it was; 0
means that the rule had nothing to check.
"""

MATRIX = """Attempts of each kind of misdeed, by database and pool, all judged by the rules above.
`tests/acceptance/test_hostile_application.py` has a matrix of its own: what the code does, and where it runs.
`make test` runs it in the pools `threads` and `prefork` on PostgreSQL, `make proof` in `solo` too, and all of
it on SQLite.
"""

SIMULATED = """## Simulated histories

What takes days or needs exact moments is played in one process: `tests/model`, whose long histories `make
proof` plays too. Processes die, or lose their connection, between any two statements, commits included.
Of schedules: several beats at once, outages, clocks set forward and back by up to two days, ten zones on
days on which clocks change, every policy, pauses; what is due is found out by a walk minute by minute
that uses nothing of the product. Once each, on two processors that were busy with other work:

| | SQLite | PostgreSQL |
|---|---|---|
| due times of schedules | 165,178 | 181,863 |
| double, missing | 0, 0 | 0, 0 |
| processor | 64 s | 83 s |
| calls for unique work, in races of four processes | | 10,567 |
| run at once, come to nothing | | 0, 0 |
| processor | | 144 s |

Races of four processes that open, fill, end, cancel, retry and lose batches in batches are played too
(`test_racing_fan_in.py`). Real processes with three beats, two of which are killed all the time, and a
clock two days forward and back: `test_schedules_in_processes.py`.
"""

NOT_COVERED = """## What this does not show

- One machine and one kernel: hosts are namespaces, and the network between them is a process that forwards
  packets. On SQLite everything is on one host, with one worker in a container of its own.
- *Full disk* is a limit on the size of files (RLIMIT_FSIZE) of one worker's processes: writes fail as
  on a full disk, with another error number. Only steps of papers write files: one that fails because of it is
  among the failures as `storage`. *Database disk full* fills a small file system in memory. The broker's disk
  is never full.
- *Wrong clock* shifts the clock of the Python code of one worker, not the kernel's, and is left out on
  SQLite, where workers use their own clocks on one machine. *Suspend everything* steps the wall clock of all
  processes through a preloaded library; it never goes back here, but in
  `tests/acceptance/test_schedules_in_processes.py`,
  with three beats of which two are killed.
- *Takes memory until killed* kills the process itself once it has taken a bounded amount.
- *Deliver again and late* sends messages as old as the run.
- What was acknowledged after a backup that is restored is lost, and not judged. Files are not restored.
- A worker that lost its lease may continue for a while; its external effects in that time are not promised
  to happen once, and are counted under no cap. `guarantees.md` says so.
- Leases that no worker started leave no record, so order and caps are checked by attempts that started.
- The order of starts is checked between high and low work of one phase only, strictly only where
  no message can have been lost, and not for what the operator touched.
- Limits are edited once every worker has registered, not before.
"""
