"""The board: how the work stands at one moment, in one set of statements whatever the number of rows.

Every figure has one place it is counted: waiting work along the routes (`explain`), use of limits in
the snapshot admission decides by, reasons by admission itself, forecasts in `forecast`, what ended
from rolled-up minutes (`trend_memory`), and ended executions in `board_count`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count

from queuemgr.base import process_state
from queuemgr.base.budget_day import day_of
from queuemgr.base.consistent_read import consistent_read
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.timed_cache import TimedCache
from queuemgr.flows.flow import all_phases
from queuemgr.models import FINAL, BulkAction, DailyUsage, Lease, State
from queuemgr.reporting import explain
from queuemgr.reporting.dashboard import budget_burndown, trend_cache
from queuemgr.reporting.dashboard import limit_bars as board_limits
from queuemgr.reporting.dashboard import phase_table as board_queues
from queuemgr.reporting.dashboard import reconciliation as board_count
from queuemgr.reporting.dashboard import worker_table as board_workers
from queuemgr.reporting.dashboard.alarms import Alarm, alarms
from queuemgr.reporting.dashboard.budget_burndown import Budgets
from queuemgr.reporting.dashboard.limit_bars import LimitBar, Limits, Whys
from queuemgr.reporting.dashboard.phase_table import HeldLeases, PhaseRow
from queuemgr.reporting.dashboard.reconciliation import AllExecutions, SumCheck, all_executions
from queuemgr.reporting.dashboard.trend_cache import Recent
from queuemgr.reporting.dashboard.trends import ALL, Speed, Window
from queuemgr.reporting.dashboard.worker_table import Workers
from queuemgr.reporting.failure_groups import FailureGroup, groups
from queuemgr.reporting.forecast import forecast
from queuemgr.scheduling import snapshot
from queuemgr.scheduling.admission import FLEET, Snapshot

FAILURES = 8
ACTIONS = 5


@dataclass(frozen=True, slots=True)
class Failures:
    """Failed executions by kind and fingerprint, the most frequent first."""

    shown: tuple[FailureGroup, ...]
    are_more: bool


@dataclass(frozen=True, slots=True)
class Action:
    """A bulk action under way: executions its filter met, and those passed so far."""

    id: int
    name: str
    actor: str
    reason: str
    matched: int
    passed: int
    failed: int

    @property
    def share(self) -> float:
        return min(1.0, self.passed / self.matched) if self.matched else 0.0


@dataclass(frozen=True, slots=True)
class Board:
    """Everything the front page shows, of the moment `at`; `counted` may be up to half a minute older."""

    at: datetime
    phases: tuple[PhaseRow, ...]
    fleet: LimitBar
    limits: Limits
    whys: Whys
    windows: tuple[Window, ...]
    budgets: Budgets
    workers: Workers
    failures: Failures
    actions: tuple[Action, ...]
    counted: AllExecutions
    checks: tuple[SumCheck, ...]
    alarms: tuple[Alarm, ...]

    @property
    def waiting(self) -> int:
        return sum(row.waiting for row in self.phases)

    @property
    def running(self) -> int:
        return sum(row.running for row in self.phases)

    @property
    def on_their_way(self) -> int:
        """Leases given out whose step has not begun."""
        return sum(row.held for row in self.phases) - self.running

    @property
    def oldest(self) -> timedelta | None:
        """How long the oldest due work has waited."""
        return max((row.oldest for row in self.phases if row.oldest is not None), default=None)

    @property
    def aged_after(self) -> bool:
        """Does work that waited long enough go first?"""
        return any(cell.aged_after for row in self.phases for cell in row.cells)

    @property
    def hour(self) -> Speed:
        """All work of the last hour."""
        return self.windows[0].speeds[ALL]

    @property
    def ended(self) -> tuple[tuple[str, int], ...]:
        """Ended executions by state."""
        return tuple((str(state), self.counted.by_state.get(state, 0)) for state in FINAL)


_counted: TimedCache[AllExecutions] = TimedCache()
_failed: TimedCache[Failures] = TimedCache()

process_state.register(_counted.forget)
process_state.register(_failed.forget)


def read() -> Board:
    """How everything stands now."""
    with consistent_read():
        return _read(database_now())


def _read(now: datetime) -> Board:
    seen, waiting, held = snapshot.read(now), explain.waiting_by_route(), _held()
    reasons = explain.reasons(seen)
    phases = board_queues.phase_rows(seen, waiting, held)
    recent, spent = trend_cache.recent(now), _spent_today(seen)
    counted = _counted.get_or_compute(
        now, lambda: all_executions(now, sum(waiting.values()), _sum(held))
    )
    limits = board_limits.limit_bars(seen, board_limits.waiting_on(reasons.by_route, waiting))
    whys = board_limits.whys(
        explain.what_stops_work(seen=reasons, counts=waiting), reasons.could_start
    )
    windows, workers = recent.windows(), board_workers.workers(now, held)
    budgets, checks = (
        _budgets(seen, phases, recent, spent),
        _checks(counted, seen, phases, held, spent),
    )
    failed = counted.by_state.get(State.FAILED, 0)
    return Board(
        at=now,
        phases=phases,
        fleet=limits.shown[0],
        limits=limits,
        whys=whys,
        windows=windows,
        budgets=budgets,
        workers=workers,
        failures=_failed.get_or_compute(now, _failures),
        actions=tuple(_action(row) for row in BulkAction.objects.running()[:ACTIONS]),
        counted=counted,
        checks=checks,
        alarms=alarms(seen, phases, limits, whys, workers, budgets, windows[0], failed, checks),
    )


def _action(row: BulkAction) -> Action:
    passed = row.changed + row.skipped + row.failed
    return Action(row.pk, str(row), row.actor, row.reason, row.matched, passed, row.failed)


def _checks(
    counted: AllExecutions,
    seen: Snapshot,
    phases: Sequence[PhaseRow],
    held: Sequence[HeldLeases],
    spent: Mapping[str, int],
) -> tuple[SumCheck, ...]:
    said_held = board_count.held_states()
    return tuple(board_count.checks(counted, seen, phases, held, said_held, spent))


def _held() -> tuple[HeldLeases, ...]:
    rows = (
        Lease.objects.order_by()
        .values_list("phase", "priority", "worker_id")
        .annotate(n=Count("*"))
    )
    return tuple(HeldLeases(*row) for row in rows)


def _sum(held: Sequence[HeldLeases]) -> int:
    return sum(lease.count for lease in held)


def _spent_today(seen: Snapshot) -> dict[str, int]:
    """Requests of today by the fleet and by each phase, by the day of each one's zone."""
    names = [FLEET, *(f"phase:{phase}" for phase in all_phases())]
    days = {name: day_of(seen.now, seen.rule(name).budget_zone) for name in names}
    rows = DailyUsage.objects.filter(day__in={*days.values()}, limit__in=names)
    found = rows.values_list("limit", "day", "spent")
    return {name: spent for name, day, spent in found if day == days[name]}


def _budgets(
    seen: Snapshot, phases: Sequence[PhaseRow], recent: Recent, spent: Mapping[str, int]
) -> Budgets:
    unfinished = Counter({row.phase: row.waiting + row.held for row in phases})
    found = budget_burndown.budgets(seen, forecast(seen, unfinished)["budgets"])
    fleet = next((budget for budget in found if budget.limit == FLEET), None)
    return Budgets(
        shown=found[: budget_burndown.SHOWN],
        others=max(0, len(found) - budget_burndown.SHOWN),
        line=budget_burndown.line(fleet, recent.by_hour, seen.now, recent.since) if fleet else None,
        spent=spent.get(FLEET, 0),
        spent_by_phase={phase: spent.get(f"phase:{phase}", 0) for phase in all_phases()},
    )


def _failures() -> Failures:
    found = groups(limit=FAILURES + 1)
    return Failures(tuple(found[:FAILURES]), len(found) > FAILURES)
