"""What is missed, in an outage or by a step of the clock, is run as the schedule says, and only once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from queuemgr.models import Execution, Schedule, ScheduledRun
from queuemgr.schedules import fire, plan
from tests.integration.schedules.conftest import MINUTE, NOON, enqueued, runs

Make = Callable[..., Schedule]


@pytest.mark.parametrize(
    ("misfire", "kept"),
    [
        ("skip", [("12:05-12:55", "missed"), ("13:00", "enqueued")]),
        ("run once", [("12:05-12:55", "missed"), ("13:00", "enqueued")]),
        ("run all", [("12:05-12:45", "missed"), *((at, "enqueued") for at in ("12:50", "12:55", "13:00"))]),
    ],
)  # fmt: skip
def test_after_an_outage_that_ends_at_a_due_time(
    make_schedule: Make, misfire: str, kept: list[tuple[str, str]]
) -> None:
    make_schedule(misfire=misfire, misfire_limit=2, overlap="allow")
    fire.run_due(NOON + 60 * MINUTE)
    assert runs() == kept


@pytest.mark.parametrize(
    ("misfire", "kept"),
    [
        ("skip", [("12:05-12:55", "missed")]),
        ("run once", [("12:05-12:50", "missed"), ("12:55", "enqueued")]),
        ("run all", [("12:05-12:45", "missed"), ("12:50", "enqueued"), ("12:55", "enqueued")]),
    ],
)
def test_after_an_outage_that_ends_between_due_times(
    make_schedule: Make, misfire: str, kept: list[tuple[str, str]]
) -> None:
    make_schedule(misfire=misfire, misfire_limit=2, overlap="allow")
    fire.run_due(NOON + 58 * MINUTE)
    assert runs() == kept
    assert fire.run_due(NOON + 60 * MINUTE) == 1


def test_what_is_missed_by_a_second_step_of_the_clock_has_a_record_though_its_first_was_run_before(
    make_schedule: Make,
) -> None:
    make_schedule("cron */5 * * * *", misfire="run all", misfire_limit=2, overlap="allow")
    fire.run_due(NOON + 60 * MINUTE)
    fire.run_due(NOON + 49 * MINUTE)  # set back: it comes to 12:50 again, which was run
    fire.run_due(NOON + 120 * MINUTE)
    assert runs() == [
        ("12:05-12:45", "missed"), *((at, "enqueued") for at in ("12:50", "12:55", "13:00")),
        ("13:05-13:45", "missed"), *((at, "enqueued") for at in ("13:50", "13:55", "14:00")),
    ]  # fmt: skip


def test_two_days_forward_and_back_run_each_due_time_once(make_schedule: Make) -> None:
    make_schedule("cron 0 * * * *", overlap="allow")
    two_days = timedelta(days=2)
    fire.run_due(NOON + 60 * MINUTE)
    fire.run_due(NOON + two_days)
    assert enqueued() == ["13:00", "12:00"]
    for hour in range(2, 60):
        fire.run_due(NOON + hour * 60 * MINUTE)
    due = sorted(ScheduledRun.objects.filter(outcome="enqueued").values_list("due_at", flat=True))
    assert due == [NOON + hour * 60 * MINUTE for hour in range(1, 60)]
    assert Execution.objects.count() == 59


def test_an_interval_continues_within_its_period_when_the_clock_is_set_back(make_schedule: Make) -> None:
    make_schedule("every 5m from start", overlap="allow")
    fire.run_due(NOON + 5 * MINUTE)
    back = NOON - timedelta(days=1)
    assert fire.run_due(back) == 0
    assert fire.run_due(back + 5 * MINUTE) == 1


def test_one_transaction_enqueues_about_so_many_however_much_is_to_be_made_up_for(
    make_schedule: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, write = list[int](), plan.write

    def counted(rows: Any) -> None:
        stored.append(Execution.objects.count())
        write(rows)

    for number in range(6):
        make_schedule("every 1m", f"s{number}", misfire="run all", misfire_limit=20, overlap="allow")
    monkeypatch.setattr(fire, "RUNS_AT_A_TIME", 30)
    monkeypatch.setattr(plan, "write", counted)
    enqueued_runs = fire.run_due(NOON + 600 * MINUTE)
    assert enqueued_runs == Execution.objects.count() >= 6 * 20
    steps = [after - before for before, after in zip([0, *stored], stored, strict=False)]
    assert max(steps) < 2 * 30
