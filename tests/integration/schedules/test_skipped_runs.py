"""Runs that are skipped, while the one before lasts or the schedule is paused: when, why, and as one row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from queuemgr.models import Execution, Schedule, ScheduledRun
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from queuemgr.reporting import schedules as report
from queuemgr.schedules import fire, new_runs
from tests.integration.schedules.conftest import MINUTE, NOON, end_runs, enqueued, runs

Make = Callable[..., Schedule]


def test_a_run_is_skipped_with_the_reason_while_the_one_before_has_not_ended(make_schedule: Make) -> None:
    make_schedule(overlap="skip")
    for minute in (5, 10):
        fire.run_due(NOON + minute * MINUTE)
    end_runs(NOON + 14 * MINUTE)
    fire.run_due(NOON + 15 * MINUTE)
    assert runs() == [("12:05", "enqueued"), ("12:10", "skipped"), ("12:15", "enqueued")]
    assert (
        "the run of 2026-05-04 12:05:00 UTC had not ended"
        in ScheduledRun.objects.get(outcome="skipped").reason
    )


def test_one_run_waits_for_the_end_of_the_one_before_and_the_next_is_skipped(make_schedule: Make) -> None:
    row = make_schedule(overlap="queue one")
    for minute in (5, 10, 15):
        fire.run_due(NOON + minute * MINUTE)
    assert runs() == [("12:05", "enqueued"), ("12:15", "skipped")]
    row.refresh_from_db()
    assert row.held_due_at == NOON + 10 * MINUTE
    end_runs(NOON + 16 * MINUTE)
    assert fire.run_due(NOON + 17 * MINUTE) == 1
    assert enqueued() == ["12:05", "12:10"]


def test_what_is_paused_is_skipped_with_who_paused_it_and_continues_with_the_next_due_time(
    make_schedule: Make,
) -> None:
    row = make_schedule(paused_at=NOON, paused_by="ann", pause_reason="moving house", overlap="allow")
    for minute in range(5, 30):
        fire.run_due(NOON + minute * MINUTE)
    assert {outcome for _, outcome in runs()} == {"skipped"}
    assert ScheduledRun.objects.latest("due_at").reason == "paused by ann: moving house"
    Schedule.objects.filter(pk=row.pk).update(paused_at=None)
    assert fire.run_due(NOON + 30 * MINUTE) == 1


def test_a_run_whose_execution_was_deleted_has_ended(make_schedule: Make) -> None:
    make_schedule(overlap="skip")
    fire.run_due(NOON + 5 * MINUTE)
    Execution.objects.all().delete()
    assert fire.run_due(NOON + 10 * MINUTE) == 1


def look_each_minute(last: int, first: int = 1) -> None:
    for minute in range(first, last + 1):
        fire.run_due(NOON + minute * MINUTE)


def left_out() -> list[tuple[str, int | None]]:
    """The spans of what was skipped, and how many due times each is."""
    rows = ScheduledRun.objects.filter(outcome="skipped").order_by("due_at")
    return [(f"{row.due_at:%H:%M}-{row.until or row.due_at:%H:%M}", row.times) for row in rows]


def test_a_long_overlap_is_one_row_with_a_count(make_schedule: Make) -> None:
    make_schedule("every 1m from start", overlap="skip")
    look_each_minute(60)
    assert runs() == [("12:01", "enqueued"), ("12:02-13:00", "skipped")]
    assert left_out() == [("12:02-13:00", 59)]
    end_runs(NOON + 60 * MINUTE)
    look_each_minute(63, first=61)
    assert left_out() == [("12:02-13:00", 59), ("13:02-13:03", 2)]
    shown = report.shown(Schedule.objects.get())["runs"]
    assert report.became(shown[0]).startswith("skipped 2 times: the run of ")
    assert report.skipping() == []
    look_each_minute(64, first=64)
    assert [name for name, _ in report.skipping()] == ["nightly"]


def test_due_times_that_are_skipped_at_once_are_one_row(make_schedule: Make) -> None:
    make_schedule("every 1m from start", overlap="skip", misfire="run all", misfire_limit=1000)
    fire.run_due(NOON + 500 * MINUTE)
    assert left_out() == [("12:02-20:20", 499)]


def test_a_run_that_waits_parts_those_left_out_before_and_after_it(make_schedule: Make) -> None:
    make_schedule("every 1m from start", overlap="queue one")
    look_each_minute(5)
    assert left_out() == [("12:03-12:05", 3)]
    end_runs(NOON + 5 * MINUTE)
    look_each_minute(9, first=6)
    assert runs() == [
        ("12:01", "enqueued"), ("12:02", "enqueued"), ("12:03-12:05", "skipped"), ("12:07-12:09", "skipped"),
    ]  # fmt: skip
    end_runs(NOON + 9 * MINUTE)
    look_each_minute(10, first=10)
    assert ("12:06", "enqueued") in runs()


def test_a_long_pause_is_one_row_and_another_reason_begins_another(make_schedule: Make) -> None:
    row = make_schedule("every 1m from start", paused_at=NOON, paused_by="ann", overlap="allow")
    look_each_minute(30)
    Schedule.objects.filter(pk=row.pk).update(paused_by="bob")
    look_each_minute(40, first=31)
    assert left_out() == [("12:01-12:30", 30), ("12:31-12:40", 10)]


def test_what_was_left_out_together_is_not_run_when_the_clock_comes_there_again(make_schedule: Make) -> None:
    row = make_schedule("cron * * * * *", paused_at=NOON, paused_by="ann", overlap="allow")
    look_each_minute(120)
    assert left_out() == [("12:01-14:00", 120)]
    Schedule.objects.filter(pk=row.pk).update(paused_at=None)
    look_each_minute(121)
    assert enqueued() == ["14:01"]
    assert left_out() == [("12:01-14:00", 120)]


@pytest.mark.parametrize("ended_as", ["failed", "cancelled", "skipped"])
def test_a_run_that_a_person_retries_has_not_ended_after_all(make_schedule: Make, ended_as: str) -> None:
    make_schedule(overlap="skip")
    fire.run_due(NOON + 5 * MINUTE)
    Execution.objects.update(state=ended_as, finished_at=NOON + 6 * MINUTE, route=None)
    new_runs.note_ends(NOON + 7 * MINUTE)
    assert ScheduledRun.objects.get().ended_as == ended_as
    assert executions.retry(Execution.objects.all(), Actor("ann", "test")) == 1
    fire.run_due(NOON + 10 * MINUTE)
    assert runs() == [("12:05", "enqueued"), ("12:10", "skipped")]
    end_runs(NOON + 11 * MINUTE)
    assert fire.run_due(NOON + 15 * MINUTE) == 1


def test_one_that_waits_for_its_own_retry_has_not_ended(make_schedule: Make) -> None:
    make_schedule(overlap="skip")
    fire.run_due(NOON + 5 * MINUTE)
    Execution.objects.update(run_after=NOON + 60 * MINUTE, error_kind="network")
    fire.run_due(NOON + 10 * MINUTE)
    assert runs() == [("12:05", "enqueued"), ("12:10", "skipped")]
