"""Minutes: every attempt counted in one of them, once, whoever rolls up, however late it is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from queuemgr.base import histogram
from queuemgr.lifecycle import minute_stats
from queuemgr.models import ALL_TIME, Attempt, Execution, MinuteStats, Outcome

pytestmark = pytest.mark.django_db(transaction=True)
Probes = Callable[..., list[Execution]]
Ended = Callable[..., None]

NOW = minute_stats.whole_minute(timezone.now()) + timedelta(seconds=30)
"""Half a minute into a minute: the one before is over, and its grace too."""


@pytest.fixture
def ended(probes: Probes) -> Ended:
    """Attempts that ended: `ended(3, ago=90, phase="wrap", outcome=…, waited=2, ran=5)`, seconds."""
    (execution,) = probes(1)

    def make(count: int = 1, ago: float = 90, waited: float = 1, ran: float = 2, **columns: Any) -> None:
        at = NOW - timedelta(seconds=ago)
        started = at - timedelta(seconds=ran)
        due = started - timedelta(seconds=waited)
        given = {"phase": "prep", "step": "probe", "priority": 1, "cost": 2, "outcome": "done"}
        Attempt.objects.bulk_create(
            [
                Attempt(
                    lease_id=uuid4(), execution=execution, due_at=due, leased_at=due,
                    started_at=started, ended_at=at, **{**given, **columns},
                )
                for _ in range(count)
            ],
            batch_size=2000,
        )  # fmt: skip

    return make


def counted() -> int:
    return minute_stats.since(ALL_TIME).aggregate(n=Sum("attempts"))["n"] or 0


def all_time() -> int:
    return MinuteStats.objects.all_time().aggregate(n=Sum("attempts"))["n"] or 0


def test_a_minute_that_is_over_is_counted_by_kind_with_its_waits_and_runs(ended: Ended) -> None:
    ended(3, waited=0.2, ran=40)
    ended(2, outcome="failed", error_kind="network", phase="wrap", priority=0)
    assert minute_stats.roll_up(NOW) == 5
    done, failed = minute_stats.since(ALL_TIME).order_by("outcome")
    assert (done.phase, done.priority, done.outcome, done.error_kind) == ("prep", 1, "done", "")
    assert (done.attempts, done.cost) == (3, 6)
    assert done.waited[histogram.BOUNDS.index(0.25)] == 3
    assert done.ran[histogram.BOUNDS.index(60.0)] == 3
    assert (failed.attempts, failed.error_kind) == (2, "network")
    assert list(minute_stats.since(ALL_TIME).filter(phase="wrap")) == [failed]
    assert minute_stats.rolled_up_to() == failed.minute + minute_stats.MINUTE


def test_a_minute_is_left_alone_until_its_grace_is_over(ended: Ended) -> None:
    ended(ago=31)
    assert minute_stats.roll_up(NOW - timedelta(seconds=21)) == 0
    assert minute_stats.roll_up(NOW - timedelta(seconds=20)) == 1


def test_rolling_up_again_changes_nothing(ended: Ended) -> None:
    ended(4)
    minute_stats.roll_up(NOW)
    before = list(MinuteStats.objects.order_by("pk").values())
    assert minute_stats.roll_up(NOW) == 0
    assert list(MinuteStats.objects.order_by("pk").values()) == before


def test_an_attempt_committed_late_is_counted(ended: Ended) -> None:
    ended(2)
    minute_stats.roll_up(NOW)
    ended(1, waited=50)
    ended(1, outcome="lost")
    ended(1, ago=150)
    minute_stats.roll_up(NOW)
    assert (counted(), all_time()) == (5, 5)
    assert sum(minute_stats.since(ALL_TIME).get(minute=whole(90), outcome="done").waited) == 3


@pytest.mark.only_on("postgres", why="needs two connections")
def test_however_many_roll_up_at_once_every_attempt_is_counted_once(
    ended: Ended, in_threads: Callable[..., list[Any]]
) -> None:
    for ago in (90, 150, 210, 4000):
        for outcome in Outcome.values:
            ended(5, ago=ago, outcome=outcome)
    in_threads(6, lambda _: minute_stats.roll_up(NOW))
    assert (counted(), all_time()) == (160, 160)


def test_a_roll_up_overtaken_by_another_adds_nothing(ended: Ended, monkeypatch: pytest.MonkeyPatch) -> None:
    ended(3)
    count, reads = minute_stats._count, [0]

    def overtaken(span: minute_stats.Span) -> minute_stats.Rows:
        found = count(span)
        reads[0] += 1
        if reads[0] == 1:
            ended(2)
            minute_stats.roll_up(NOW)
        return found

    monkeypatch.setattr(minute_stats, "_count", overtaken)
    minute_stats.roll_up(NOW)
    assert reads[0] == 2
    assert (counted(), all_time()) == (5, 5)


def test_days_without_a_run_are_caught_up_with_oldest_first_in_bounded_batches(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minute_stats, "ROWS_AT_A_TIME", 20)
    monkeypatch.setattr(minute_stats, "ROWS_A_RUN", 50)
    for hours in range(1, 73, 3):
        ended(10, ago=3600 * hours)
    first = minute_stats.roll_up(NOW)
    assert 50 <= first < 50 + 20 + 10
    assert minute_stats.since(ALL_TIME).order_by("minute").first().minute < NOW - timedelta(hours=69)  # type: ignore[union-attr]  # there is one
    runs = [first]
    while runs[-1]:
        runs.append(minute_stats.roll_up(NOW))
    assert max(runs) < 80
    assert (counted(), all_time()) == (240, 240)


def test_a_span_without_attempts_costs_no_statement_a_minute(ended: Ended) -> None:
    ended(ago=20 * 86_400)
    ended(ago=90)
    with CaptureQueriesContext(connection) as seen:
        minute_stats.roll_up(NOW)
    assert counted() == 2
    assert len(seen) < 40


def test_attempts_older_than_minutes_are_kept_are_not_rolled_up(
    ended: Ended, configure: Callable[..., None]
) -> None:
    configure(keep_minutes_days=2)
    ended(ago=3 * 86_400)
    ended(ago=86_400)
    minute_stats.roll_up(NOW)
    assert counted() == 1


def test_old_minutes_are_pruned_and_the_sums_of_all_time_stay(
    ended: Ended, configure: Callable[..., None]
) -> None:
    ended(3, ago=20 * 86_400)
    ended(2, ago=10 * 86_400)
    ended(1)
    minute_stats.roll_up(NOW)
    configure(keep_minutes_days=5)
    assert minute_stats.prune(NOW, rows=1) == 2
    minute_stats.roll_up(NOW)
    assert (counted(), all_time()) == (1, 6)


def test_nothing_is_counted_twice_when_minutes_are_kept_longer_again(
    ended: Ended, configure: Callable[..., None]
) -> None:
    ended(3, ago=20 * 86_400)
    ended(2, ago=10 * 86_400)
    minute_stats.roll_up(NOW)
    configure(keep_minutes_days=5)
    assert minute_stats.prune(NOW, rows=100) == 1, "the last stays: it says how far this went"
    configure(keep_minutes_days=31)
    minute_stats.roll_up(NOW)
    assert all_time() == 5


def test_pruned_attempts_take_nothing_from_minutes_already_rolled_up(ended: Ended) -> None:
    ended(4)
    minute_stats.roll_up(NOW)
    Attempt.objects.all().delete()
    minute_stats.roll_up(NOW)
    assert (counted(), all_time()) == (4, 4)


@pytest.mark.parametrize("back", [timedelta(minutes=2), timedelta(hours=1)])
def test_a_clock_set_back_leaves_nothing_uncounted(ended: Ended, back: timedelta) -> None:
    ended(2)
    minute_stats.roll_up(NOW)
    ended(3, ago=back.total_seconds() + 80)
    minute_stats.roll_up(NOW - back)
    assert (counted(), all_time()) == (5, 5)


def test_an_attempt_that_ended_in_the_future_rolls_up_nothing_early(ended: Ended) -> None:
    ended(1, ago=-600)
    assert minute_stats.roll_up(NOW) == 0
    assert minute_stats.roll_up(NOW + timedelta(seconds=700)) == 1


def test_without_a_due_time_the_wait_is_counted_from_the_lease(ended: Ended) -> None:
    ended(1, waited=7)
    Attempt.objects.update(due_at=None)
    minute_stats.roll_up(NOW)
    assert minute_stats.since(ALL_TIME).get().waited[histogram.BOUNDS.index(10.0)] == 1


def test_an_attempt_is_counted_in_the_minute_in_which_it_ended(ended: Ended) -> None:
    ended(1, ago=30.000001)
    ended(1, ago=90)
    minute_stats.roll_up(NOW)
    found = sorted(minute_stats.since(ALL_TIME).values_list("minute", flat=True))
    assert found == [whole(90)]
    assert isinstance(found[0], datetime)


def whole(ago: float) -> datetime:
    return minute_stats.whole_minute(NOW - timedelta(seconds=ago))
