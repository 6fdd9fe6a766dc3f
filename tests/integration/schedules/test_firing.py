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
from queuemgr.models import Execution, Queue, Schedule, ScheduledRun, State
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from queuemgr.reporting import schedules as report
from queuemgr.schedules import fire, new_runs, plan
from tests.integration.schedules.conftest import NOON, enqueued, runs

MINUTE = timedelta(minutes=1)
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


def end_runs(at: Any) -> None:
    Execution.objects.update(state=State.DONE, finished_at=at, route=None)


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


def test_what_is_paused_is_skipped_with_who_paused_it_and_goes_on_with_the_next_due_time(
    make_schedule: Make,
) -> None:
    row = make_schedule(paused_at=NOON, paused_by="ann", pause_reason="moving house", overlap="allow")
    for minute in range(5, 30):
        fire.run_due(NOON + minute * MINUTE)
    assert {outcome for _, outcome in runs()} == {"skipped"}
    assert ScheduledRun.objects.latest("due_at").reason == "paused by ann: moving house"
    Schedule.objects.filter(pk=row.pk).update(paused_at=None)
    assert fire.run_due(NOON + 30 * MINUTE) == 1


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


def test_an_interval_goes_on_within_its_period_when_the_clock_is_set_back(make_schedule: Make) -> None:
    make_schedule("every 5m from start", overlap="allow")
    fire.run_due(NOON + 5 * MINUTE)
    back = NOON - timedelta(days=1)
    assert fire.run_due(back) == 0
    assert fire.run_due(back + 5 * MINUTE) == 1


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


def test_a_run_whose_execution_was_deleted_has_ended(make_schedule: Make) -> None:
    make_schedule(overlap="skip")
    fire.run_due(NOON + 5 * MINUTE)
    Execution.objects.all().delete()
    assert fire.run_due(NOON + 10 * MINUTE) == 1


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
