"""The dashboard's page: permissions, links, and that reading it changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from queuemgr.base import process_state
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import BulkAction, Limit, LimitState, Worker
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from tests.integration.web.admin.admin_pages import text_of
from tests.integration.web.admin.dashboard_fleet import HOST, a_failed, a_fleet, a_minute, an_ended, waited

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>"
VIEWER = (
    "view_execution", "view_limit", "view_queue", "view_worker", "view_attempt", "view_auditentry",
    "view_allowanceusage", "view_bulkaction",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _new(sent: list[Any]) -> None:
    limit_rows.sync()
    process_state.reset_all()


@pytest.fixture
def viewer(staff: Callable[..., Client]) -> Client:
    return staff(*VIEWER)


@pytest.fixture
def world(make_worker: Callable[..., Worker]) -> None:
    """Something in every part of the dashboard."""
    a_fleet(make_worker)
    waited(30)
    a_failed("dead")
    an_ended("old")
    a_minute(timedelta(minutes=3), attempts=2)
    controls.pause("wrap.low", Actor("sam", "command", "the disk is full"))
    LimitState.objects.create(name=HOST, open_until=database_now() + timedelta(hours=1), open_reason="429")
    BulkAction.objects.create(verb="retry", state="running", actor="sam", source="admin", matched=9, up_to=9)


def front() -> str:
    return reverse("admin:index")


def parts() -> str:
    return reverse("admin:dashboard_fragment")


def links_of(text: str) -> list[tuple[str, str]]:
    """Addresses within the dashboard, and what they stand under."""
    here = text[text.index('id="dashboard-headline"') :].split("dashboard-lists")[0]
    found = re.findall(r'<a [^>]*?href="(/[^"]+)"[^>]*>([^<]*)</a>', here)
    return [(unescape(address), shown) for address, shown in found]


def test_the_front_page_is_the_dashboard_and_leads_to_every_list(viewer: Client, world: None) -> None:
    text = text_of(viewer.get(front()))
    for part in (
        "queues",
        "wait-reasons",
        "limits",
        "budget",
        "trends",
        "failures",
        "workers",
        "reconciliation",
    ):
        assert f'id="dashboard-{part}"' in text
    assert "All lists" in text
    assert reverse("admin:queuemgr_execution_changelist") in text


def test_a_user_who_may_not_see_executions_gets_only_the_lists(staff: Callable[..., Client]) -> None:
    client = staff("view_limit")
    text = text_of(client.get(front()))
    assert 'id="dashboard"' not in text
    assert reverse("admin:queuemgr_limit_changelist") in text
    assert client.get(parts()).status_code == 403


def test_the_refreshed_parts_need_a_login_and_accept_only_get(viewer: Client) -> None:
    answer = Client().get(parts())
    assert answer.status_code == 302
    assert "login" in answer["Location"]
    assert viewer.post(parts()).status_code == 405
    assert "no-store" in viewer.get(parts())["Cache-Control"]


def test_reading_the_dashboard_changes_nothing(viewer: Client, world: None) -> None:
    viewer.get(front())
    with CaptureQueriesContext(connection) as captured:
        for address in (front(), parts()):
            text_of(viewer.get(address))
    writes = re.compile(r"\s*(INSERT|UPDATE|DELETE)", re.I)
    assert [q["sql"] for q in captured.captured_queries if writes.match(q["sql"])] == []


def test_every_number_links_to_a_page_that_opens(superuser: Client, world: None) -> None:
    links = links_of(text_of(superuser.get(front())))
    assert len(links) > 20
    for address in sorted({address for address, _ in links}):
        answer = superuser.get(address, follow=True)
        assert answer.status_code == 200, address


def test_a_count_of_executions_links_to_a_list_of_as_many(superuser: Client, world: None) -> None:
    changelist = reverse("admin:queuemgr_execution_changelist")
    links = links_of(text_of(superuser.get(front())))
    counted = [(a, n) for a, n in links if a.startswith(f"{changelist}?") and n.isdigit()]
    assert len(counted) > 8
    for address, shown in counted:
        assert superuser.get(address).context["cl"].result_count == int(shown), address


def test_a_viewer_is_offered_nothing_they_may_not_do(viewer: Client, world: None) -> None:
    text = text_of(viewer.get(parts()))
    assert "Retry these" not in text
    assert "<form" not in text


def test_a_user_who_may_retry_gets_a_link_to_the_preview_of_a_bulk_retry(
    staff: Callable[..., Client], world: None
) -> None:
    text = text_of(staff(*VIEWER, "retry_execution", "add_bulkaction").get(parts()))
    (address,) = re.findall(r'<a class="sg-button" href="([^"]+)">Retry these…</a>', text)
    assert address.startswith(reverse("admin:bulk_new"))
    for given in ("verb=retry", "state=failed", "error_kind=not_pdf", "error_fingerprint="):
        assert given in address


def test_everything_from_a_row_is_escaped_as_text(viewer: Client, world: None) -> None:
    """Names of limits, errors, workers, pauses and reasons."""
    a_failed("bad", HOSTILE[:32], HOSTILE)
    Limit.objects.create(name=f"host:{HOSTILE}", max_running=1)
    Worker.objects.update(name=HOSTILE)
    controls.pause("prep.high", Actor(HOSTILE, "command", HOSTILE))
    LimitState.objects.update(open_reason=HOSTILE)
    BulkAction.objects.update(actor=HOSTILE, reason=HOSTILE)
    for address in (front(), parts(), f"{front()}?window={HOSTILE}"):
        process_state.reset_all()
        text = text_of(viewer.get(address))
        assert "<script>alert" not in text
    assert text.count("&lt;script&gt;alert(1)") >= 6


@pytest.mark.parametrize(("window", "shown"), [("1h", "1 h"), ("7d", "7 d"), ("x", "1 h"), ("", "1 h")])
def test_the_chart_covers_the_requested_window(viewer: Client, window: str, shown: str) -> None:
    text = text_of(viewer.get(parts(), {"window": window}))
    assert re.search(rf'aria-current="true">last {shown}<', text)


def test_the_dashboard_opens_before_anything_was_ever_started(viewer: Client) -> None:
    """A fresh database holds no limits yet: a worker's or a command's first start writes them."""
    Limit.objects.all().delete()
    assert "No failed executions" in text_of(viewer.get(front()))
