"""The pages of schedules: what they show, and what a person with the right may do there."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import AuditEntry, Execution, Schedule, ScheduledRun
from queuemgr.operations import schedules
from queuemgr.operations.controls import Actor
from queuemgr.schedules import fire, plan
from queuemgr.scheduling import limit_rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root", "sent")]
LIST = "admin:queuemgr_schedule_changelist"


@pytest.fixture
def row() -> Schedule:
    limit_rows.sync()
    made = schedules.create(
        "nightly", "probe", "cron 30 3 * * * in Europe/Berlin", Actor("ann", "test"),
        payload={"limit": "host:secret"},
    )  # fmt: skip
    fire.run_due(made.next_due_at)
    ScheduledRun.objects.create(
        schedule=made, due_at=database_now(), decided_at=database_now(), outcome="skipped",
        reason="the run of 2026-05-04 12:05:00 UTC had not ended",
    )  # fmt: skip
    return Schedule.objects.get()


def page_of(client: Client, row: Schedule) -> str:
    return client.get(reverse("admin:queuemgr_schedule_change", args=[row.pk])).content.decode()


def act(client: Client, row: Schedule, what: str, **posted: Any) -> int:
    url = reverse(f"admin:schedule_{what}", args=[row.pk])
    return client.post(url, {"reason": "because", **posted}).status_code


def fields_of(row: Schedule, **changed: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in schedules.FIELDS} | changed


def test_the_list_and_the_page_show_next_and_last_runs_with_reasons(superuser: Client, row: Schedule) -> None:
    listed = superuser.get(reverse(LIST)).content.decode()
    assert "cron 30 3 * * * in Europe/Berlin" in listed
    page = page_of(superuser, row)
    assert page.count("<li>") >= 10
    assert Execution.objects.get().key in page
    assert "the run of 2026-05-04 12:05:00 UTC had not ended" in page


def test_the_list_takes_as_many_statements_for_many_schedules(
    superuser: Client, row: Schedule, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        schedules.create(f"s{number}", "probe", "every 5m", Actor("ann", "test"))
    with django_assert_max_num_queries(20):
        superuser.get(reverse(LIST))


def test_a_person_runs_pauses_resumes_edits_and_deletes_it_and_says_why(
    superuser: Client, row: Schedule
) -> None:
    assert act(superuser, row, "run") == 302
    assert Execution.objects.count() == 2
    until = f"{database_now() + timedelta(hours=2):%Y-%m-%dT%H:%M}"
    act(superuser, row, "pause", until=until)
    assert "paused by root: because, until" in page_of(superuser, row)
    act(superuser, row, "resume")
    act(superuser, row, "edit", **fields_of(row, timing="every 5 min", overlap="queue one"))
    edited = Schedule.objects.get()
    assert (edited.timing, edited.overlap) == ("every 5m from start", "queue one")
    act(superuser, row, "payload", payload='{"limit": "host:b"}')
    assert Schedule.objects.get().payload == {"limit": "host:b"}
    act(superuser, row, "delete")
    assert not Schedule.objects.exists()
    entries = AuditEntry.objects.filter(source="admin").order_by("pk").values_list("action", "reason")
    assert list(entries) == [
        (action, "because")
        for action in (
            "run schedule", "pause schedule", "resume schedule", "edit schedule", "edit schedule payload",
            "delete schedule",
        )
    ]  # fmt: skip


def test_what_is_wrong_is_shown_in_the_form_and_changes_nothing(superuser: Client, row: Schedule) -> None:
    url = reverse("admin:schedule_edit", args=[row.pk])
    page = superuser.post(url, fields_of(row, timing="sometimes")).content.decode()
    assert "write &#x27;cron" in page
    assert Schedule.objects.get().timing == row.timing
    shown = superuser.post(reverse("admin:schedule_payload", args=[row.pk]), {"payload": "{"})
    assert shown.status_code == 200


def test_a_schedule_is_made_on_its_page(superuser: Client) -> None:
    limit_rows.sync()
    sent = {
        "name": "poll", "flow": "probe", "timing": "every 10m from end", "priority": 1, "misfire": "skip",
        "misfire_limit": 5, "overlap": "skip", "jitter": 0, "payload": "{}", "reason": "asked for",
    }  # fmt: skip
    assert superuser.post(reverse("admin:queuemgr_schedule_add"), sent | {"timing": "x"}).status_code == 200
    done = superuser.post(reverse("admin:queuemgr_schedule_add"), sent)
    assert done.status_code == 302, done.content.decode()[:3000]
    made = Schedule.objects.get()
    assert made.next_due_at is not None
    assert AuditEntry.objects.get().reason == "asked for"


@pytest.mark.parametrize(
    ("right", "allowed"),
    [
        ("view_schedule", set()),
        ("run_schedule", {"run"}),
        ("pause_schedule", {"pause", "resume"}),
        ("change_schedule", {"edit"}),
        ("delete_schedule", {"delete"}),
    ],
)
def test_each_right_allows_its_own_and_no_more(
    staff: Callable[..., Client], row: Schedule, right: str, allowed: set[str]
) -> None:
    client = staff(*{"view_schedule", right})
    may = {what for what in ("run", "pause", "resume", "edit", "payload") if act(client, row, what) != 403}
    may |= {"delete"} if act(client, row, "delete") != 403 else set()
    assert may == allowed


@pytest.mark.parametrize("rights", [("view_schedule",), ("view_schedule", "view_payload")])
def test_payloads_are_for_those_who_may_read_them(
    staff: Callable[..., Client], row: Schedule, rights: tuple[str, ...]
) -> None:
    assert ("host:secret" in page_of(staff(*rights), row)) == ("view_payload" in rights)


TIMELINE = "admin:schedule_timeline"


@pytest.mark.parametrize("zoom", ["hour", "day", "week", "", "x"])
def test_the_timeline_has_a_row_for_each_schedule_with_marks_that_lead_to_the_runs(
    superuser: Client, row: Schedule, zoom: str
) -> None:
    page = superuser.get(reverse(TIMELINE), {"zoom": zoom}).content.decode()
    assert "cron 30 3 * * * in Europe/Berlin" in page
    assert "the run of 2026-05-04 12:05:00 UTC had not ended" in page
    link = re.search(r'<a href="([^"]*until=[^"]*)#runs"', page)
    assert link is not None
    runs = superuser.get(link[1].replace("&amp;", "&")).content.decode()
    assert "the run of 2026-05-04 12:05:00 UTC had not ended" in runs


def test_the_timeline_moves_in_time_and_takes_any_address(superuser: Client, row: Schedule) -> None:
    for at in ("2026-01-01T00:00", "0001-01-01T00:00", "9999-12-31T23:59", "nonsense", "2026-01-01T00:00+99"):
        for page in ("1", "0", "-7", "99", "x"):
            shown = superuser.get(reverse(TIMELINE), {"at": at, "page": page, "q": "night"})
            assert shown.status_code == 200
    assert "2025-12-31 00:00:00 UTC to 2026-01-02 00:00:00 UTC" in superuser.get(
        reverse(TIMELINE), {"at": "2026-01-01T00:00"}
    ).content.decode()  # fmt: skip
    for until in ("2026-01-01T00:00", "9999-12-31T23:59", "nonsense"):
        address = reverse("admin:queuemgr_schedule_change", args=[row.pk])
        assert superuser.get(address, {"until": until}).status_code == 200


def test_the_timeline_of_many_schedules_is_paged_and_takes_as_many_statements(
    superuser: Client, row: Schedule, django_assert_max_num_queries: Any
) -> None:
    now = database_now()
    Schedule.objects.bulk_create(
        Schedule(name=f"s{n:03}", flow="probe", timing="every 1s from start", created_at=now)
        for n in range(60)
    )
    plan.plan_changed()
    with django_assert_max_num_queries(12):
        page = superuser.get(reverse(TIMELINE)).content.decode()
    assert "Page 1 of 3, 61 schedules" in page
    assert page.count('role="rowheader"') == 25
    found = superuser.get(reverse(TIMELINE), {"q": "s01"}).content.decode()
    assert found.count('role="rowheader"') == 10


@pytest.mark.parametrize(("right", "status"), [("view_execution", 403), ("view_schedule", 200)])
def test_the_timeline_is_for_those_who_may_see_schedules(
    staff: Callable[..., Client], right: str, status: int
) -> None:
    assert staff(right).get(reverse(TIMELINE)).status_code == status


def test_earlier_runs_are_reached_from_the_latest(superuser: Client, row: Schedule) -> None:
    ScheduledRun.objects.bulk_create(
        ScheduledRun(
            schedule=row,
            due_at=row.created_at - timedelta(hours=n),
            decided_at=row.created_at,
            outcome="skipped",
            reason=f"number {n}.",
        )
        for n in range(1, 31)
    )
    page = page_of(superuser, row)
    assert "number 30." not in page
    earlier = re.search(r'<a href="(\?until=[^"]*)#runs">Earlier runs', page)
    assert earlier is not None
    address = reverse("admin:queuemgr_schedule_change", args=[row.pk])
    assert "number 30." in superuser.get(address + earlier[1]).content.decode()


@override_settings(TIME_ZONE="Asia/Tokyo")
def test_times_are_in_utc_as_they_say_whatever_the_time_zone_of_the_project(
    superuser: Client, row: Schedule
) -> None:
    assert f"{row.next_due_at:%Y-%m-%d %H:%M:%S} UTC (03:30" in page_of(superuser, row)
    until = (database_now() + timedelta(hours=2)).replace(second=0, microsecond=0)
    act(superuser, row, "pause", until=f"{until:%Y-%m-%dT%H:%M}")
    assert Schedule.objects.get().paused_until == until
    assert timezone.get_current_timezone_name() == "Asia/Tokyo"
