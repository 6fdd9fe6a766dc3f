"""What the dashboard remembers between looks, and that all of one look is of one moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Thread
from types import SimpleNamespace
from uuid import uuid4

import pytest
from django.db import connection

from queuemgr.base import process_state
from queuemgr.base.db_connection import consistent_read
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.timed_cache import MAX_LIFETIME, TimedCache
from queuemgr.lifecycle import minute_stats
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Attempt, Execution, MinuteStats, Outcome, State
from queuemgr.reporting.dashboard import trend_cache
from queuemgr.reporting.dashboard.trends import Window
from queuemgr.scheduling import limit_rows
from tests.integration.web.admin.dashboard_fleet import a_minute

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _new() -> None:
    process_state.reset_all()


def windows() -> tuple[Window, ...]:
    return trend_cache.recent(database_now()).windows()


def tries() -> list[int]:
    return [window.speeds["all"].tries for window in windows()]


@pytest.mark.only_on(
    "postgres", why="the tests' SQLite is in memory, where a reader locks out whoever writes"
)
@pytest.mark.django_db(transaction=True)
def test_a_consistent_read_sees_one_moment(sent: list[object]) -> None:
    limit_rows.sync()
    enqueue("probe", "before")

    def meanwhile() -> None:
        enqueue("probe", "meanwhile")
        connection.close()

    with consistent_read():
        assert Execution.objects.count() == 1
        other = Thread(target=meanwhile)
        other.start()
        other.join(timeout=60)
        assert not other.is_alive(), "a look keeps nobody from writing"
        assert Execution.objects.count() == 1
    assert Execution.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_consistent_read_that_fails_leaves_no_transaction_open() -> None:
    with pytest.raises(RuntimeError, match="oh"), consistent_read():
        raise RuntimeError("oh")
    limit_rows.sync()
    assert enqueue("probe", "after")


@pytest.mark.django_db
def test_minutes_rolled_up_between_reads_are_added() -> None:
    a_minute(timedelta(hours=2), attempts=5)
    a_minute(timedelta(minutes=30), attempts=2)
    assert tries() == [2, 7, 7]
    a_minute(timedelta(minutes=2), attempts=1)
    assert tries() == [3, 8, 8]
    assert tries() == [3, 8, 8]


@pytest.mark.django_db
def test_a_minute_that_still_grows_is_counted_as_it_is() -> None:
    newest = a_minute(timedelta(minutes=2), attempts=1)
    assert tries() == [1, 1, 1]
    MinuteStats.objects.filter(pk=newest.pk).update(attempts=4)
    assert tries() == [4, 4, 4]


@pytest.mark.parametrize("most", [0, minute_stats.PENDING_READ])
@pytest.mark.django_db
def test_what_ended_this_minute_is_counted_before_it_is_rolled_up(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many without how long they took; the headline would say 0 beside what the lists show."""
    monkeypatch.setattr(minute_stats, "PENDING_READ", most)
    a_minute(timedelta(minutes=2), attempts=3)
    execution = Execution.objects.create(
        flow="probe", key="a", phase="prep", step="probe", state=State.DONE, finished_at=database_now()
    )
    now = database_now()
    for outcome in (Outcome.DONE, Outcome.DONE, Outcome.FAILED):
        Attempt.objects.create(
            lease_id=uuid4(), execution=execution, phase="prep", step="probe", priority=1, outcome=outcome,
            worker="w", cost=0, leased_at=now, started_at=now, ended_at=now,
        )  # fmt: skip
    assert tries() == [6, 6, 6]
    hour = windows()[0]
    assert (hour.speeds["prep"].failed, hour.bars[-1].failed) == (1, 1)
    assert tries() == [6, 6, 6]


@pytest.mark.django_db
def test_minutes_rolled_up_hours_late_are_not_missed() -> None:
    """The roll-up was away: it resumes where it stopped, whatever was read meanwhile."""
    a_minute(timedelta(hours=5), attempts=1)
    assert tries() == [0, 1, 1]
    for hours in (4, 3, 2):
        a_minute(timedelta(hours=hours), attempts=1)
    assert tries() == [0, 4, 4]


@pytest.mark.django_db
def test_a_week_is_read_in_chunks_and_reports_how_far_it_got(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trend_cache, "ROWS", 4)
    for hours in range(2, 12):
        a_minute(timedelta(hours=hours), attempts=1)
        a_minute(timedelta(hours=hours), attempts=1, outcome=Outcome.FAILED)
    seen = []
    for _ in range(8):
        week = windows()[2]
        seen.append((week.speeds["all"].tries, week.is_partial))
    assert seen[0][1]
    assert seen[0][0] < 20
    assert seen[-1] == (20, False)
    assert sorted(seen) == seen


def test_a_read_is_cached_for_a_multiple_of_its_duration_up_to_a_maximum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([0.0, 0.1, 0.0, 60.0, 0.0, 0.0])
    monkeypatch.setattr("queuemgr.base.timed_cache.time", SimpleNamespace(monotonic=lambda: next(clock)))
    kept, readings = TimedCache[int](), iter(range(10))

    def at(seconds: float) -> int:
        return kept.get_or_compute(NOW + timedelta(seconds=seconds), lambda: next(readings))

    assert [at(0), at(4.9), at(5.1)] == [0, 0, 1]
    assert at(5 + MAX_LIFETIME.total_seconds()) == 1
    assert at(6 + MAX_LIFETIME.total_seconds()) == 2
