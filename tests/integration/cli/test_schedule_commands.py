"""`queue schedule`: what it shows, what it changes, and what it says of that in the audit log."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import AuditEntry, Execution, Schedule, ScheduledRun
from queuemgr.operations import audit_log
from queuemgr.operations.controls import Actor
from queuemgr.operations.undo import undo
from queuemgr.schedules import fire
from queuemgr.scheduling import limit_rows
from tests.integration.cli.commands import queue

pytestmark = pytest.mark.django_db(transaction=True)
BOB = Actor("bob", "admin")


@pytest.fixture(autouse=True)
def _limits(sent: list[Any]) -> None:
    limit_rows.sync()


def made(*more: str) -> Schedule:
    done = queue(
        "schedule", "create", "nightly", "cron 30 3 * * * in Europe/Berlin", "--flow", "probe", *more
    )
    assert done.code == 0, done
    return Schedule.objects.get()


def last() -> AuditEntry:
    return AuditEntry.objects.latest("pk")


def test_a_schedule_is_made_planned_and_recorded() -> None:
    row = made(
        "--payload", '{"limit": "host:a"}', "--priority", "high", "--jitter", "60", "--reason", "asked for"
    )
    assert row.next_due_at is not None
    assert (row.payload, row.priority, row.jitter, row.is_stated) == ({"limit": "host:a"}, 0, 60, False)
    assert (last().action, last().target, last().reason) == ("create schedule", "nightly", "asked for")
    assert "host:a" not in str(last().after)


def test_the_list_and_one_schedule_are_shown_as_tables_and_as_json() -> None:
    row = made()
    fire.run_due(row.next_due_at)
    (line,) = queue("schedule", "list", "--json").out.splitlines()
    listed = json.loads(line)
    assert (listed["schedule"], listed["state"], listed["last"]["outcome"]) == (
        "nightly",
        "in force",
        "enqueued",
    )
    shown = json.loads(queue("schedule", "show", "nightly", "--json").out)
    assert len(shown["next_runs"]) == 10
    assert shown["runs"][0]["key"] == Execution.objects.get().key
    text = queue("schedule", "list").out
    assert "nightly" in text
    assert "cron 30 3 * * * in Europe/Berlin" in text
    page = queue("schedule", "show", "nightly").out
    assert "Next runs" in page
    assert Execution.objects.get().key in page


def test_an_edit_is_planned_at_once_recorded_and_undone() -> None:
    row = made()
    queue(
        "schedule", "edit", "nightly", "--timing", "every 5m", "--overlap", "allow", "--reason", "more often"
    )
    row.refresh_from_db()
    assert row.timing == "every 5m from start"
    assert row.next_due_at - database_now() < timedelta(minutes=6)
    assert (last().before["overlap"], last().after["timing"]) == ("skip", "every 5m from start")
    undo(last(), BOB)
    row.refresh_from_db()
    assert (row.timing, row.overlap) == ("cron 30 3 * * * in Europe/Berlin", "skip")


def test_a_payload_is_recorded_apart_for_those_who_may_read_payloads() -> None:
    made()
    queue("schedule", "edit", "nightly", "--payload", '{"limit": "host:b"}')
    assert (last().action, last().after) == ("edit schedule payload", {"payload": {"limit": "host:b"}})
    assert audit_log.needed()["edit schedule payload"] == "queuemgr.view_payload"
    undo(last(), BOB)
    assert Schedule.objects.get().payload == {}


def test_a_pause_says_who_and_why_ends_by_itself_and_is_undone() -> None:
    made()
    queue("schedule", "pause", "nightly", "--minutes", "90", "--reason", "the source is down")
    row = Schedule.objects.get()
    assert row.is_paused(database_now())
    assert not row.is_paused(database_now() + timedelta(minutes=91))
    assert "the source is down" in queue("schedule", "list").out
    undo(last(), BOB)
    assert not Schedule.objects.get().is_paused(database_now())
    queue("schedule", "pause", "nightly")
    queue("schedule", "resume", "nightly", "--reason", "back")
    assert (last().action, last().reason) == ("resume schedule", "back")
    assert queue("schedule", "resume", "nightly").code == 3


def test_a_run_now_is_enqueued_though_it_is_paused_and_says_who_asked() -> None:
    made()
    queue("schedule", "pause", "nightly")
    key = json.loads(queue("schedule", "run", "nightly", "--json").out)["key"]
    assert Execution.objects.get().key == key
    run = ScheduledRun.objects.get()
    assert (run.outcome, run.requested_by, last().action) == ("enqueued", last().actor, "run schedule")


def test_what_a_person_made_is_deleted_and_what_code_states_is_not() -> None:
    row = made()
    Schedule.objects.filter(pk=row.pk).update(from_settings={"timing": row.timing})
    refused = queue("schedule", "delete", "nightly")
    assert refused.code == 3
    assert "stated by code" in refused.error
    Schedule.objects.filter(pk=row.pk).update(from_settings={})
    assert queue("schedule", "delete", "nightly").code == 0
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "unknown"), "no schedule is called 'unknown'"),
        (("create", "x", "daily", "--flow", "probe"), "write 'cron"),
        (("create", "x", "@daily", "--flow", "probe"), "write 'cron"),
        (("create", "x", "every 5m", "--flow", "no.such"), "no flow is called 'no.such'"),
        (("create", "x", "every 5m", "--flow", "probe", "--payload", "[]"), "is a JSON object"),
        (("create", "x", "every 5m", "--flow", "probe", "--jitter", "999999"), "jitter 999999"),
        (("create", "x" * 201, "every 5m", "--flow", "probe"), "1 to 200 printable"),
    ],
)
def test_what_is_wrong_is_refused_with_what_to_write(words: tuple[str, ...], said: str) -> None:
    refused = queue("schedule", *words)
    assert refused.code == 3
    assert said in refused.error


def test_a_second_schedule_of_a_name_is_refused() -> None:
    made()
    assert "already" in queue("schedule", "create", "nightly", "every 5m", "--flow", "probe").error


def test_how_late_a_schedule_is_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    row = made()
    Schedule.objects.filter(pk=row.pk).update(next_due_at=database_now() - timedelta(minutes=10))
    assert "10 min" in queue("schedule", "list").out


def test_deleting_keeps_what_was_enqueued(in_threads: Callable[..., Any]) -> None:
    made()
    queue("schedule", "run", "nightly")
    queue("schedule", "delete", "nightly")
    assert Execution.objects.count() == 1
    assert not ScheduledRun.objects.exists()
