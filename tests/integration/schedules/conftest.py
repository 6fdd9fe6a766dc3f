"""Schedules of the probe flow, whose time the test says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queuemgr.models import Execution, Schedule, ScheduledRun, State
from queuemgr.schedules import declaration, plan
from queuemgr.scheduling import limit_rows

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
"""When the schedules of these tests come into force."""
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declaration, "_registered", {})


@pytest.fixture
def make_schedule(transactional_db: None, sent: list[Any]) -> Callable[..., Schedule]:
    """A schedule that came into force at noon: `make_schedule("every 5m", overlap="allow")`."""
    limit_rows.sync()

    def make(timing: str = "every 5m from start", name: str = "nightly", **fields: Any) -> Schedule:
        row = Schedule.objects.create(
            **{"name": name, "flow": "probe", "timing": timing, "created_at": NOON, **fields}
        )
        plan.plan_changed(NOON)
        row.refresh_from_db()
        return row

    return make


def runs() -> list[tuple[str, str]]:
    """The time and the outcome of each run, the earliest first."""
    rows = ScheduledRun.objects.order_by("due_at", "schedule__name")
    return [
        (f"{row.due_at:%H:%M}" + (f"-{row.until:%H:%M}" if row.until else ""), row.outcome) for row in rows
    ]


def enqueued() -> list[str]:
    """The due times of which there is an execution."""
    keys = Execution.objects.filter(key__startswith="schedule:").order_by("key").values_list("key", flat=True)
    return [key.partition("@")[2][11:16] for key in keys]


def end_runs(at: Any) -> None:
    Execution.objects.update(state=State.DONE, finished_at=at, route=None)
