"""How the work stands: counts by flow, phase, state and priority, and whether there is more to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from django.db.models import Count, Sum

from queuemgr import explain, snapshot
from queuemgr.admission import FLEET
from queuemgr.fleet_lock import database_now
from queuemgr.flow import PRIORITY_NAMES, all_phases, operator_status
from queuemgr.models import FINAL, DailyUsage, Execution, Lease, Limit, State, Worker


@dataclass(frozen=True)
class Standing:
    """Executions by operator's status, and by phase and state."""

    by_status: Counter[str] = field(default_factory=Counter)
    by_phase: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.by_status.total()

    @property
    def done(self) -> int:
        return self.by_status[State.DONE] + self.by_status[State.SKIPPED]

    @property
    def failed(self) -> int:
        return self.by_status[State.FAILED]

    def unfinished(self, phases: Sequence[str] = ()) -> int:
        """Executions not final, of these phases (none: all)."""
        return sum(
            count
            for (phase, state), count in self.by_phase.items()
            if state not in FINAL and (not phases or phase in phases)
        )

    def beyond(self, phase: str) -> int:
        """Executions that have left this phase behind."""
        order = list(all_phases())
        later = order[order.index(phase) + 1 :]
        ended = self.done
        return ended + sum(
            n for (p, s), n in self.by_phase.items() if p in later and s not in FINAL
        )


def standing(since: Any = None) -> Standing:
    """Count executions (those made since a moment, when given)."""
    found = Standing()
    rows = (
        Execution.objects.all()
        if since is None
        else Execution.objects.filter(created_at__gte=since)
    )
    for phase, state, count in (
        rows.values_list("phase", "state").annotate(n=Count("pk")).order_by()
    ):
        found.by_status[operator_status(state, phase)] += count
        found.by_phase[phase, state] += count
    return found


def stuck(phases: Sequence[str] = ()) -> list[explain.Stopped]:
    """What stops all that is left, when nothing runs and only a person or tomorrow can change that.

    Empty while anything runs, may still start, or waits for a time that comes by itself today.
    """
    if Lease.objects.exists() or _retries_waiting():
        return []
    seen = explain.reasons()
    stopped = explain.what_stops_work(phases, seen)
    moving = [s for s in stopped if s.limit != "budget" and "paused by" not in s.text]
    return [] if moving or seen.could_start or Lease.objects.exists() else stopped


def _retries_waiting() -> bool:
    return Execution.objects.waiting().filter(run_after__gt=database_now()).exists()


def stats() -> dict[str, Any]:
    """All of it as plain data with stable names: what `queue stats --json` prints."""
    now = database_now()
    now_standing = standing()
    return {
        "at": now.isoformat(),
        "total": now_standing.total,
        "statuses": dict(now_standing.by_status),
        "queues": _queues(),
        "limits": _limits(),
        "budget": _budget(now),
        "workers": _workers(now),
        "waiting_on": [vars_of(stopped) for stopped in explain.what_stops_work()],
    }


def vars_of(stopped: explain.Stopped) -> dict[str, Any]:
    return {"limit": stopped.limit, "reason": stopped.text, "waiting": stopped.waiting}


def _queues() -> list[dict[str, Any]]:
    rows = (
        Execution.objects.unfinished()
        .values_list("phase", "priority", "state")
        .annotate(n=Count("pk"))
        .order_by("phase", "priority")
    )
    queues: dict[tuple[str, int], Counter[str]] = {}
    for phase, priority, state, count in rows:
        queues.setdefault((phase, priority), Counter())[state] += count
    return [
        {
            "queue": f"{phase}.{PRIORITY_NAMES[priority]}",
            "phase": phase,
            "priority": PRIORITY_NAMES[priority],
            "waiting": states[State.WAITING],
            "leased": states[State.LEASED],
            "running": states[State.RUNNING],
        }
        for (phase, priority), states in queues.items()
    ]


def _limits() -> list[dict[str, Any]]:
    seen = snapshot.read(database_now())
    figures = Limit.objects.order_by("name").values_list("name", "max_running", "reserved_high")
    return [
        {
            "limit": name,
            "running": seen.use[name].running if name in seen.use else 0,
            "max_running": most,
            "reserved_high": reserved,
            "paused": seen.rule(name).paused,
        }
        for name, most, reserved in figures
    ]


def _budget(now: Any) -> dict[str, Any]:
    limit = Limit.objects.filter(name=FLEET).first()
    today = now.astimezone(UTC).date()
    reserved = Lease.objects.filter(budget_day=today).aggregate(cost=Sum("cost"))["cost"] or 0
    spent = DailyUsage.on(today)
    return {
        "day": today.isoformat(),
        "budget": limit.daily_budget if limit else None,
        "spent": sum(spent.values()),
        "reserved": reserved,
        "by_phase": spent,
    }


def _workers(now: Any) -> list[dict[str, Any]]:
    alive = Worker.objects.filter(seen_at__gt=snapshot.live_since(now)).annotate(
        busy=Count("lease")
    )
    return [
        {
            "worker": worker.name,
            "slots": worker.slots,
            "busy": worker.busy,
            "queues": worker.queues,
            "draining": worker.draining_at is not None,
        }
        for worker in alive
    ]
