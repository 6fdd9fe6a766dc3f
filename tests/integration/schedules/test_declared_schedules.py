"""Schedules that code states: what becomes of their rows as releases and people change them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from queuemgr import ConfigurationError
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import AuditEntry, Execution, Schedule, Worker, WorkerStatement
from queuemgr.schedules import Schedule as Declared
from queuemgr.schedules import declaration, declared_rows, every, fire, register_schedule
from queuemgr.scheduling import settings_sync
from queuemgr.worker import registration

pytestmark = pytest.mark.usefixtures("transactional_db", "sent")


def declare(minutes: int = 5, **options: Any) -> None:
    declaration.forget("nightly")
    register_schedule(Declared("nightly", "probe", every(minutes=minutes), **options))


def start_worker(name: str) -> Worker:
    return registration.register(name, [], 1)


def gone(*workers: Worker) -> None:
    long_ago = database_now() - timedelta(hours=1)
    Worker.objects.filter(pk__in=[worker.pk for worker in workers]).update(seen_at=long_ago)


def test_a_worker_that_starts_makes_the_row_and_plans_it() -> None:
    declare(payload={"host": "a"}, overlap="allow")
    start_worker("w1")
    row = Schedule.objects.get()
    assert (row.name, row.flow, row.timing, row.payload) == (
        "nightly",
        "probe",
        "every 5m from start",
        {"host": "a"},
    )
    assert row.is_stated
    assert row.next_due_at is not None
    assert timedelta(minutes=4) < row.next_due_at - database_now() <= timedelta(minutes=5)
    fire.run_due(row.next_due_at)
    assert Execution.objects.count() == 1


def test_an_edit_of_a_person_stays_until_the_code_states_something_else() -> None:
    declare()
    start_worker("w1")
    Schedule.objects.update(timing="every 1m from start", priority=0)
    start_worker("w2")
    assert Schedule.objects.get().timing == "every 1m from start"
    declare(minutes=7)
    start_worker("w3")
    row = Schedule.objects.get()
    assert (row.timing, row.priority) == ("every 7m from start", 0)  # the priority is stated as before
    assert row.planned_for == row.timing
    assert AuditEntry.objects.filter(action="edit schedule", target="nightly", actor="settings").count() == 1


def test_an_old_worker_that_restarts_during_a_deploy_changes_nothing() -> None:
    declare(minutes=5)
    start_worker("old")
    declare(minutes=7)
    start_worker("new")
    declare(minutes=5)
    old = start_worker("old again")
    assert Schedule.objects.get().timing == "every 7m from start"
    gone(*Worker.objects.exclude(pk=old.pk))
    settings_sync.follow_workers()
    assert Schedule.objects.get().timing == "every 5m from start"


def test_a_schedule_is_retired_once_no_worker_states_it_and_comes_back_with_its_history() -> None:
    declare()
    old = start_worker("old")
    declaration.forget("nightly")
    start_worker("new")
    assert declared_rows.retire_removed(database_now()) == 0
    gone(old)
    assert declared_rows.retire_removed(database_now()) == 1
    row = Schedule.objects.get()
    assert row.retired_at is not None
    assert row.next_due_at is None
    assert fire.run_due(database_now() + timedelta(hours=1)) == 0
    declare()
    start_worker("back")
    again = Schedule.objects.get()
    assert (again.pk, again.retired_at) == (row.pk, None)
    assert again.next_due_at is not None
    actions = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["retire schedule", "bring back schedule"]


def test_a_schedule_of_a_person_is_never_retired(make_schedule: Callable[..., Schedule]) -> None:
    make_schedule()
    start_worker("w1")
    assert declared_rows.retire_removed(database_now()) == 0


def test_workers_of_a_release_without_schedules_retire_none() -> None:
    declare()
    new = start_worker("new")
    old = start_worker("old")
    statement = WorkerStatement.objects.get(worker=old)
    values = {kind: stated for kind, stated in statement.values.items() if kind != "schedules"}
    WorkerStatement.objects.filter(pk=statement.pk).update(values=values, digest="old")
    gone(new)
    assert declared_rows.retire_removed(database_now()) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"misfire": "never"}, "misfire='never' is not one of skip, run once, run all"),
        ({"overlap": "all"}, "overlap='all' is not one of allow, skip, queue one"),
        ({"jitter": -1}, "jitter=-1 is no whole number from 0"),
        ({"misfire_limit": 0}, "misfire_limit=0 is no whole number from 1"),
        ({"priority": "urgent"}, "priority='urgent'"),
        ({"payload": {"a": float("inf")}}, "schedule nightly: "),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_where_it_is_written(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        declare(**options)


def test_one_name_is_one_schedule() -> None:
    declare()
    with pytest.raises(ConfigurationError, match="is declared of flow probe already"):
        register_schedule(Declared("nightly", "another", every(minutes=5)))
