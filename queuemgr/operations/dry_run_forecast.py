"""What becomes of allowances, and when all is done, if what a dry run counted is enqueued."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from queuemgr.base.meters import meter_or_plain
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.operations.dry_run import DryRun, by_step
from queuemgr.reporting import queue_depths, stats
from queuemgr.reporting.allowance_forecast import MAX_AHEAD
from queuemgr.reporting.allowances import AllowanceStatus
from queuemgr.reporting.estimate_ranges import with_ranges
from queuemgr.reporting.remaining_work import Needs, needs_of, remaining_work
from queuemgr.reporting.throughput import throughput
from queuemgr.scheduling.decision_input import NO_USE, rule_for
from queuemgr.scheduling.snapshot import read_snapshot


def as_data(run: DryRun, now: datetime) -> dict[str, Any]:
    """With stable names. Amounts are whole numbers of the smallest part of their meters; `scales` says how
    many make one of its unit."""
    allowances, phases = list(_allowances(run, now)), list(_phases(run, now))
    ends = [each["forecast"]["done_at"] for each in allowances] + [each["done_at"] for each in phases]
    unknown = [each["forecast"]["because"] for each in allowances if not each["forecast"]["done_at"]]
    unknown += [each["because"] for each in phases if not each["done_at"]]
    found = {
        "flow": run.flow,
        "priority": PRIORITY_NAMES[run.priority],
        "new": run.new,
        "already": run.already,
        "invalid": run.invalid,
        "refused": run.refused,
        "problems": run.problems,
        "steps": by_step(run),
        "used": dict(sorted(run.used.items())),
        "scales": {meter: meter_or_plain(meter).scale for meter in sorted(run.used)},
        "allowances": allowances,
        "phases": phases,
        "eta": None if unknown or not run.new else max(ends),
        "because": next(iter(unknown), "" if run.new else "nothing would be new"),
    }
    return with_ranges(found, now, eta="end")


def _allowances(run: DryRun, now: datetime) -> Iterator[dict[str, Any]]:
    """Those that it would use, forecast with it; `adds` is what it needs, `exhausts` whether less is left."""
    snapshot = read_snapshot(now)
    rules, adds = snapshot.rules, needs_of(snapshot.rules, run.waiting)
    if not adds:
        return
    names = sorted({limit for limit, _ in adds})
    snapshot = stats.with_spent([name for name in names if name not in snapshot.use], snapshot)
    remaining = remaining_work(rules, now).with_more(adds)
    for limit in names:
        for status in remaining.statuses(limit, rule_for(rules, limit), snapshot.use.get(limit, NO_USE)):
            if number := _needed(adds, limit, status):
                left = status.left if not status.allowance.rolling else None
                waiting = status.forecast.waiting + status.forecast.never if status.forecast else 0
                more = {"limit": limit, "adds": number, "exhausts": left is not None and waiting > left}
                yield {**more, **status.in_words(now)}


def _needed(adds: Needs, limit: str, status: AllowanceStatus) -> int:
    return sum(need.each * need.executions for need in adds.get((limit, status.allowance.meter), ()))


def _phases(run: DryRun, now: datetime) -> Iterator[dict[str, Any]]:
    """When each phase has done what waits in it and what it would get, at the rate of the last hour."""
    adds: dict[str, int] = {}
    for step in by_step(run):
        adds[step["phase"]] = max(adds.get(step["phase"], 0), step["executions"])
    if not adds:
        return
    unfinished: Counter[str] = Counter()
    for queue in queue_depths.queue_counts(now):
        unfinished[queue["phase"]] += queue["waiting"] + queue["leased"] + queue["running"]
    measured = throughput(now)
    for phase, number in adds.items():
        moved = measured.executions.get(phase, 0)
        seconds = (unfinished[phase] + number) * measured.seconds / moved if moved else float("inf")
        known = seconds < MAX_AHEAD.total_seconds()
        found = {
            "phase": phase,
            "unfinished": unfinished[phase],
            "adds": number,
            "per_hour": round(3600 * moved / measured.seconds, 1) if moved else 0.0,
            "done_at": now + timedelta(seconds=seconds) if known else None,
            "because": "" if known else f"nothing went through {phase} in the last hour",
        }
        yield with_ranges(found, now, done_at="end")
