"""The page of changes: found by what, who, when and why; downloaded; undone by those who may."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from queuemgr.models import AuditEntry, Limit, Queue
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from tests.integration.web.admin.admin_pages import page, text_of

pytestmark = pytest.mark.django_db
ANN, BOB = Actor("ann", "command", "slow disks"), Actor("bob", "api", "they asked us to")


@pytest.fixture(autouse=True)
def _rows() -> None:
    limit_rows.sync()


def found(client: Client, **query: str) -> list[str]:
    return [row.target for row in client.get(page("auditentry"), query).context["cl"].result_list]


def undo_page(change: AuditEntry) -> str:
    return reverse("admin:queuemgr_auditentry_undo", args=[change.pk])


@pytest.fixture
def three() -> None:
    """Ann paused a queue in 2020; Bob set a limit and paused another queue now."""
    AuditEntry.objects.create(
        at=datetime(2020, 5, 17, 23, 59, tzinfo=UTC), actor="ann", source="command", action="pause",
        target="prep.low", reason="the disk of May", before={"is": "running"}, after={"is": "x"},
    )  # fmt: skip
    controls.edit_limit("host:*", BOB, max_running=9)
    controls.pause("prep.high", BOB)


@pytest.mark.parametrize(
    ("query", "targets"),
    [
        ({"q": "prep."}, ["prep.high", "prep.low"]),
        ({"q": "host:*"}, ["host:*"]),
        ({"q": "host:%"}, []),
        ({"q": "bob"}, ["prep.high", "host:*"]),
        ({"q": "DISK of"}, ["prep.low"]),
        ({"q": "prep", "actor": "bob"}, ["prep.high"]),
        ({"action": "edit limit"}, ["host:*"]),
        ({"last_day": "2020-05-17"}, ["prep.low"]),
        ({"last_day": "2020-05-16"}, []),
        ({"first_day": "2020-05-17", "last_day": "2020-05-17"}, ["prep.low"]),
        ({"first_day": "2020-05-18"}, ["prep.high", "host:*"]),
        ({"first_day": "yesterday"}, ["prep.high", "host:*", "prep.low"]),
    ],
)
def test_changes_are_found_by_what_who_when_and_why(
    operator: Client, three: None, query: dict[str, str], targets: list[str]
) -> None:
    assert found(operator, **query) == targets


def test_the_day_filter_keeps_the_other_filters(operator: Client, three: None) -> None:
    text = text_of(operator.get(page("auditentry"), {"actor": "bob", "q": "prep"}))
    for kept in ('name="actor" value="bob"', 'name="q" value="prep"'):
        assert kept in text


def test_the_list_costs_the_same_queries_for_two_rows_and_for_forty(operator: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            text_of(operator.get(page("auditentry")))
        return len(captured)

    controls.pause("prep.high", ANN)
    few = queries()
    for _ in range(20):
        controls.pause("prep.high", ANN)
        controls.resume("prep.high", ANN)
    assert queries() == few


def test_filtered_changes_are_downloaded_as_csv_and_as_json_lines(operator: Client, three: None) -> None:
    def downloaded(kind: str) -> str:
        url = reverse("admin:queuemgr_auditentry_export", args=[kind])
        response = operator.get(url, {"actor": "bob"})
        assert f'filename="audit-log.{kind}"' in response["Content-Disposition"]
        return b"".join(response).decode()

    rows = list(csv.DictReader(downloaded("csv").splitlines()))
    lines = [json.loads(line) for line in downloaded("jsonl").splitlines()]
    assert [row["target"] for row in rows] == [line["target"] for line in lines]
    assert [row["target"] for row in rows] == ["prep.high", "host:*"]
    assert (rows[1]["before"], lines[1]["after"]) == ('{"max_running": 4}', {"max_running": 9})


def test_no_cell_of_the_csv_is_a_formula(operator: Client) -> None:
    """To the program that opens it."""
    Actor("=cmd|' /C calc'!A0", "admin", "@SUM(1)").record("pause", "-1+1", {}, {})
    url = reverse("admin:queuemgr_auditentry_export", args=["csv"])
    (row,) = csv.DictReader(b"".join(operator.get(url)).decode().splitlines())
    assert (row["actor"], row["reason"], row["target"]) == (
        "'=cmd|' /C calc'!A0", "'@SUM(1)", "'-1+1",
    )  # fmt: skip


def test_a_change_is_undone_from_its_page_with_a_reason(operator: Client) -> None:
    controls.edit_limit("host:*", ANN, max_running=9)
    change = AuditEntry.objects.get()
    text = text_of(operator.get(page("auditentry", change.pk, view="change")))
    assert "Restores: host:*: max_running 4" in text
    done = operator.post(undo_page(change), {"reason": "wrong host"}, follow=True)
    assert "Undone: host:* is max_running 4 again." in text_of(done)
    assert Limit.objects.get(name="host:*").max_running == 4
    undone = AuditEntry.objects.get(undoes=change)
    assert (undone.actor, undone.source, undone.reason) == ("sam", "admin", "wrong host")
    assert "by sam" in text_of(operator.get(page("auditentry")))


def test_a_change_that_cannot_be_undone_says_so_on_its_page_and_when_tried(operator: Client) -> None:
    controls.edit_limit("host:*", ANN, max_running=9)
    change = AuditEntry.objects.get()
    controls.edit_limit("host:*", BOB, max_running=5)
    text = text_of(operator.get(page("auditentry", change.pk, view="change")))
    assert "Cannot be undone: host:* has changed since" in text
    assert "bob did that" in text
    assert "Not undone: host:*" in text_of(operator.post(undo_page(change), follow=True))
    assert Limit.objects.get(name="host:*").max_running == 5


@pytest.mark.parametrize(
    "held", [("undo_auditentry",), ("change_limit",), ("undo_auditentry", "pause_limit", "change_queue")]
)
def test_a_person_without_the_permission_for_a_change_cannot_undo_it(
    staff: Callable[..., Client], held: tuple[str, ...]
) -> None:
    controls.edit_limit("host:*", ANN, max_running=9)
    change = AuditEntry.objects.get()
    client = staff("view_auditentry", *held)
    text = text_of(client.get(page("auditentry", change.pk, view="change")))
    assert "undo-form" not in text
    assert client.post(undo_page(change)).status_code == 403
    assert Limit.objects.get(name="host:*").max_running == 9


def test_an_undo_needs_a_post_never_a_link(operator: Client) -> None:
    controls.edit_limit("host:*", ANN, max_running=9)
    assert operator.get(undo_page(AuditEntry.objects.get())).status_code == 405


def test_downloads_need_the_permission_to_see_changes(staff: Callable[..., Client]) -> None:
    url = reverse("admin:queuemgr_auditentry_export", args=["csv"])
    assert staff("view_limit").get(url).status_code == 403


def test_a_download_of_an_unknown_format_is_404(operator: Client) -> None:
    assert operator.get(reverse("admin:queuemgr_auditentry_export", args=["xls"])).status_code == 404


def test_the_page_of_a_change_shows_all_that_was_kept(operator: Any) -> None:
    controls.pause("prep.high", ANN)
    change = AuditEntry.objects.get()
    text = text_of(operator.get(page("auditentry", change.pk, view="change")))
    assert "&quot;pause_reason&quot;: &quot;slow disks&quot;" in text


def test_an_invalid_filter_is_refused_for_downloads_as_for_the_list(superuser: Client) -> None:
    for kind in ("csv", "jsonl"):
        address = reverse("admin:queuemgr_auditentry_export", args=[kind], query={"id": "abc"})
        answer = superuser.get(address)
        assert answer.status_code == 400
        assert "invalid filter" in answer.content.decode()


def test_changes_can_be_filtered_by_actor_action_and_source(operator: Client) -> None:
    controls.pause("prep.high", Actor("ann", "command"))
    controls.resume("prep.high", Actor("bob", "api"))
    for query in ("actor=ann", "action=pause", "source=command"):
        rows = operator.get(f"{page('auditentry')}?{query}").context["cl"].result_list
        assert [row.actor for row in rows] == ["ann"]


def test_the_history_of_a_row_is_the_record_of_changes_to_it(operator: Client) -> None:
    controls.pause("prep.high", Actor("ann", "command"))
    controls.pause("prep.low", Actor("bob", "command"))
    queue = Queue.objects.get(name="prep.high")
    response = operator.get(page("queue", queue.pk, view="history"), follow=True)
    assert [row.actor for row in response.context["cl"].result_list] == ["ann"]


def test_the_history_is_shown_only_to_those_who_may_see_the_row(staff: Callable[..., Client]) -> None:
    queue = Queue.objects.get(name="prep.high")
    url = page("queue", queue.pk, view="history")
    assert staff("view_limit").get(url).status_code == 403
