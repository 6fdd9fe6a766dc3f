"""Due times become executions: once each, whoever looks, and with a record of those that do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from queuemgr.flows import flow
from queuemgr.flows.unique import Unique
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Execution, Queue, Schedule, ScheduledRun
from queuemgr.schedules import fire, new_runs, plan
from tests.integration.schedules.conftest import MINUTE, NOON, end_runs, enqueued, runs

Make = Callable[..., Schedule]


def test_each_due_time_becomes_one_execution_with_payload_and_priority(make_schedule: Make) -> None:
    make_schedule("cron */5 * * * *", payload={"host": "a"}, priority=0, overlap="allow")
    assert [fire.run_due(NOON + n * MINUTE) for n in range(0, 12)] == [0] * 5 + [1] + [0] * 4 + [1, 0]
    assert enqueued() == ["12:05", "12:10"]
    executions = Execution.objects.all()
    assert {(e.priority, e.payload["host"]) for e in executions} == {(0, "a")}
    assert {run.execution_id for run in ScheduledRun.objects.all()} == {e.pk for e in executions}


@pytest.mark.only_on("postgres", why="needs several connections")
def test_processes_that_look_at_once_enqueue_each_due_time_once(
    make_schedule: Make, in_threads: Callable[..., list[Any]]
) -> None:
    for number in range(20):
        make_schedule("every 1m from start", f"s{number:02}", overlap="allow")
    in_threads(3, lambda n: fire.run_due(NOON + MINUTE))
    fire.run_due(NOON + MINUTE)
    assert Execution.objects.count() == ScheduledRun.objects.count() == 20


@pytest.mark.only_on("postgres", why="needs two connections")
def test_who_notes_the_ends_of_runs_waits_for_nobody_who_does_so_too(
    make_schedule: Make, in_threads: Callable[..., list[Any]]
) -> None:
    for number in range(2):
        make_schedule("every 1m from start", f"s{number}", overlap="allow")
    fire.run_due(NOON + MINUTE)
    end_runs(NOON + 2 * MINUTE)
    first = ScheduledRun.objects.earliest("pk")
    with transaction.atomic():
        ScheduledRun.objects.select_for_update().get(pk=first.pk)
        in_threads(1, lambda _: new_runs.note_ends())
    assert [run.pk for run in ScheduledRun.objects.filter(ended_at=None)] == [first.pk]
    new_runs.note_ends()
    Execution.objects.all().delete()
    assert not ScheduledRun.objects.filter(ended_at=None).exists()


def test_nothing_is_stored_by_a_process_that_dies_before_its_commit(
    make_schedule: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_schedule()

    def die(rows: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(plan, "write", die)
        fire.run_due(NOON + 5 * MINUTE)
    assert (Execution.objects.count(), ScheduledRun.objects.count()) == (0, 0)
    assert fire.run_due(NOON + 6 * MINUTE) == 1


def test_the_database_refuses_a_second_run_of_a_due_time(make_schedule: Make) -> None:
    row = make_schedule()
    fire.run_due(NOON + 5 * MINUTE)
    run = ScheduledRun.objects.get()
    with pytest.raises(IntegrityError):
        ScheduledRun.objects.create(
            schedule=row, due_at=run.due_at, decided_at=NOON, outcome="enqueued", execution=run.execution
        )


def test_a_schedule_of_a_flow_that_this_process_does_not_know_is_left_to_others(make_schedule: Make) -> None:
    make_schedule(flow="next release")
    assert fire.run_due(NOON + 5 * MINUTE) == 0
    assert runs() == []


def test_an_interval_from_the_end_begins_when_the_run_has_ended(make_schedule: Make) -> None:
    row = make_schedule("every 5m from end")
    fire.run_due(NOON + 5 * MINUTE)
    assert fire.run_due(NOON + 30 * MINUTE) == 0
    end_runs(NOON + 31 * MINUTE)
    assert fire.run_due(NOON + 32 * MINUTE) == 0
    row.refresh_from_db()
    assert row.next_due_at == NOON + 36 * MINUTE
    assert fire.run_due(NOON + 36 * MINUTE) == 1
    ended = ScheduledRun.objects.earliest("due_at")
    assert (ended.ended_as, ended.ended_at) == ("done", NOON + 31 * MINUTE)


def test_once_runs_once_and_is_not_due_any_more(make_schedule: Make) -> None:
    make_schedule(f"once {(NOON + 3 * MINUTE).isoformat()}")
    assert [fire.run_due(NOON + n * MINUTE) for n in (2, 3, 4, 900)] == [0, 1, 0, 0]


def test_a_full_queue_refuses_a_run_which_says_so(make_schedule: Make) -> None:
    make_schedule(name="a", overlap="allow")
    make_schedule(name="b", overlap="allow")
    fire.run_due(NOON + 5 * MINUTE)
    first = Execution.objects.all()
    Queue.objects.filter(phase=first[0].phase, priority=1).update(max_pending=3)
    assert fire.run_due(NOON + 10 * MINUTE) == 1
    refused = ScheduledRun.objects.get(outcome="skipped")
    assert "full" in refused.reason or "waiting" in refused.reason
    assert fire.run_due(NOON + 10 * MINUTE) == 0


def test_a_payload_that_can_never_fit_skips_its_own_run_only(make_schedule: Make) -> None:
    make_schedule(name="bad", payload={"weight": 10_000, "limit": "phase:prep"}, overlap="allow")
    make_schedule(name="good", overlap="allow")
    fire.run_due(NOON + 5 * MINUTE)
    assert ScheduledRun.objects.get(schedule__name="good").outcome == "enqueued"


def test_a_changed_timing_holds_from_now_on(make_schedule: Make) -> None:
    row = make_schedule("cron 0 * * * *", overlap="allow")
    Schedule.objects.filter(pk=row.pk).update(timing="cron 30 * * * *")
    assert fire.run_due(NOON + 20 * MINUTE) == 0
    assert fire.run_due(NOON + 30 * MINUTE) == 1
    assert fire.run_due(NOON + 60 * MINUTE) == 0


def test_jitter_puts_off_the_start_by_the_same_in_every_process(make_schedule: Make) -> None:
    make_schedule(jitter=3600, overlap="allow")
    fire.run_due(NOON + 5 * MINUTE)
    execution = Execution.objects.get()
    due = NOON + 5 * MINUTE
    assert execution.run_after is not None
    wait = execution.run_after - due
    assert timedelta() < wait < timedelta(hours=1)
    assert wait == new_runs.jitter_of("nightly", due, 3600)


def test_a_due_time_whose_work_is_there_already_is_skipped_with_that_reason(
    make_schedule: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    unique = replace(flow.get_flow("probe"), unique=Unique(keys=["host"]))
    monkeypatch.setitem(flow._flows, "probe", unique)
    make_schedule("every 1m from start", payload={"host": "a"}, overlap="allow")
    assert enqueue("probe", "by hand", {"host": "a"})
    assert fire.run_due(NOON + MINUTE) == 0
    run = ScheduledRun.objects.get()
    assert (run.outcome, run.reason, run.execution) == ("skipped", "by hand has its unique key", None)
    Execution.objects.all().delete()
    assert fire.run_due(NOON + 2 * MINUTE) == 1


def test_a_schedule_that_cannot_be_decided_stops_no_other(make_schedule: Make) -> None:
    broken = [make_schedule("every 5m", name) for name in ("a", "z")]
    make_schedule("every 5m", "m", overlap="allow")
    Schedule.objects.filter(name="a").update(timing="nonsense", planned_for="nonsense")
    Schedule.objects.filter(name="z").update(timing="nonsense")
    assert fire.run_due(NOON + 5 * MINUTE) == 1
    assert [Schedule.objects.get(pk=row.pk).next_due_at for row in broken] == [None, None]
    assert fire.run_due(NOON + 10 * MINUTE) == 1


@pytest.mark.parametrize(
    ("excluded", "left"),
    [
        ("2026-05-06", [4, 5, 7, 8, 9, 10]),
        ("05-06", [4, 5, 7, 8, 9, 10]),
        ("wed", [4, 5, 7, 8, 9, 10]),
        ("2026-05-06/2026-05-08", [4, 5, 9, 10]),
        ("05-06/05-08", [4, 5, 9, 10]),
        ("05-09/05-05", [6, 7, 8]),
        ("sat,sun", [4, 5, 6, 7, 8]),
    ],
)
@pytest.mark.parametrize("timing", ["cron 0 13 * * *", "every 24h from start in Europe/Berlin"])
def test_nothing_is_run_on_days_that_are_left_out_nor_is_it_missed_then(
    make_schedule: Make, timing: str, excluded: str, left: list[int]
) -> None:
    make_schedule(f"{timing} except {excluded}", overlap="allow", misfire="run all")
    for day in range(7):
        for hour in (0, 1):
            fire.run_due(NOON + timedelta(days=day, hours=hour))
    due = sorted(ScheduledRun.objects.values_list("due_at", flat=True))
    first = 4 if timing.startswith("cron") else 5
    assert [at.day for at in due] == [day for day in left if day >= first]
    assert not ScheduledRun.objects.exclude(outcome="enqueued").exists()
