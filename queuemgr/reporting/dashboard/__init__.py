"""The dashboard: everything at one moment, read in the same statements whatever the number of rows.

Each number is counted in one place: waiting work by route (`explain`), usage of limits in the snapshot that
admission decides on, reasons by admission itself, forecasts in `forecast`, what ended from minute rollups
(`trend_cache`), and ended executions in `reconciliation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count

from queuemgr.base import process_state
from queuemgr.base.config import queue_settings
from queuemgr.base.database_problems import held_lock
from queuemgr.base.db_connection import consistent_read
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.timed_cache import TimedCache
from queuemgr.base.unreachable import Problem
from queuemgr.flows.flow import all_phases
from queuemgr.lifecycle import callback_failures
from queuemgr.models import FINAL, BulkAction, CallbackFailure, Lease
from queuemgr.reporting import explain, later_steps, periodic_jobs, schedules
from queuemgr.reporting.dashboard.alarms import Alarm, alarms
from queuemgr.reporting.dashboard.allowance_table import AllowanceTable, allowance_table
from queuemgr.reporting.dashboard.budget_burndown import Budgets, budgets_today
from queuemgr.reporting.dashboard.limit_bars import LimitBar, LimitBars, WaitReasons, limit_bars, wait_reasons
from queuemgr.reporting.dashboard.phase_table import Held, PhaseRow, QueueCell, Sums, phase_rows
from queuemgr.reporting.dashboard.reconciliation import AllExecutions, SumCheck, all_executions, checks
from queuemgr.reporting.dashboard.trend_cache import recent
from queuemgr.reporting.dashboard.trends import ALL, Speed, Window
from queuemgr.reporting.dashboard.worker_table import WorkerTable, workers
from queuemgr.reporting.failure_groups import FailureGroup, groups
from queuemgr.reporting.later_steps import LaterUse
from queuemgr.reporting.periodic_jobs import Trouble
from queuemgr.reporting.remaining_work import remaining_work
from queuemgr.reporting.unknown_work import UnknownWork, unknown_work
from queuemgr.scheduling import limit_usage
from queuemgr.scheduling.claims import FLEET
from queuemgr.scheduling.decision_input import Snapshot
from queuemgr.scheduling.snapshot import read_snapshot

FAILURES = 8
ACTIONS = 5


class StateCount(NamedTuple):
    state: str
    executions: int


@dataclass(frozen=True)
class Dashboard(Sums):
    """All of the front page at the time `at`; `counted` may be up to half a minute older."""

    at: datetime
    phases: tuple[PhaseRow, ...]
    cells: Sequence[QueueCell]
    fleet: LimitBar
    limits: LimitBars
    wait_reasons: WaitReasons
    windows: tuple[Window, ...]
    budgets: Budgets
    allowances: AllowanceTable
    workers: WorkerTable
    failures: list[FailureGroup]
    actions: tuple[BulkAction, ...]
    counted: AllExecutions
    checks: tuple[SumCheck, ...]
    callback_failures: list[CallbackFailure]
    late_jobs: list[Trouble]
    unknown_work: list[UnknownWork]
    schedule_troubles: list[schedules.Trouble]
    held_lock: Problem | None
    snapshot: Snapshot

    @property
    def paused_phases(self) -> frozenset[str]:
        paused = {name.removeprefix("phase:") for name, rule in self.snapshot.rules.items() if rule.paused}
        return frozenset(row.phase for row in self.phases if row.phase in paused)

    @property
    def aged_after(self) -> bool:
        """Is work aged?"""
        return any(cell.aged_after for cell in self.cells)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        return alarms(self)

    @property
    def hour(self) -> Speed:
        """All work of the last hour."""
        return self.windows[0].speeds[ALL]

    @property
    def ended(self) -> tuple[StateCount, ...]:
        return tuple(StateCount(str(state), self.counted.by_state[state]) for state in FINAL)


_counted: TimedCache[AllExecutions] = TimedCache()
_failed: TimedCache[list[FailureGroup]] = TimedCache()

process_state.register(_counted.forget)
process_state.register(_failed.forget)


def read() -> Dashboard:
    """Rules of applications are asked first: what they do to a transaction is not done to the one in which
    all is read."""
    later = later_steps.of_remaining_work(database_now())
    with consistent_read():
        return _read(database_now(), later)


def _read(now: datetime, later: Sequence[LaterUse]) -> Dashboard:
    snapshot, waiting, held = read_snapshot(now), explain.waiting_by_route(), _held()
    reasons = explain.reasons(snapshot)
    stopped = explain.what_stops_work(route_reasons=reasons, counts=waiting)
    phases = phase_rows(snapshot, waiting, held)
    trends, spent = recent(now), _spent_today(snapshot)
    counted = _counted.get_or_compute(now, lambda: all_executions(now, sum(waiting.values()), held.total()))
    remaining = remaining_work(snapshot.rules, now, later)
    limits = limit_bars(snapshot, reasons.by_route, waiting)
    return Dashboard(
        at=now,
        phases=phases,
        cells=[cell for row in phases for cell in row.cells],
        fleet=limits.shown[0],
        limits=limits,
        wait_reasons=wait_reasons(stopped, reasons.could_start),
        windows=trends.windows(),
        budgets=budgets_today(snapshot, trends, spent, remaining),
        allowances=allowance_table(snapshot, remaining, queue_settings().allowance_alarm_percent),
        workers=workers(now, held),
        failures=_failed.get_or_compute(now, lambda: groups(limit=FAILURES)),
        actions=tuple(BulkAction.objects.running()[:ACTIONS]),
        counted=counted,
        callback_failures=callback_failures.recent(now),
        late_jobs=periodic_jobs.troubles(now),
        unknown_work=unknown_work(),
        schedule_troubles=schedules.troubles(now),
        held_lock=held_lock(),
        checks=tuple(checks(counted, snapshot, phases, held, spent)),
        snapshot=snapshot,
    )


def _held() -> Held:
    rows = Lease.objects.order_by().values_list("phase", "priority", "worker_id").annotate(n=Count("*"))
    return Held({(phase, rank, worker): n for phase, rank, worker, n in rows})


def _spent_today(snapshot: Snapshot) -> dict[str, int]:
    """Requests today of the fleet and of each phase, by the day of each one's time zone."""
    names = [FLEET, *(f"phase:{phase}" for phase in all_phases())]
    return limit_usage.requests_today(snapshot.rules, names, snapshot.now)
