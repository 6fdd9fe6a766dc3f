"""Limits are edited and added on their pages, with valid values only, and recorded."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.test import Client

from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import AuditEntry, Limit
from queuemgr.models import Worker as WorkerRow
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from tests.integration.web.admin.admin_pages import limit_form, page, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _queues() -> None:
    limit_rows.sync()


def test_editing_a_limit_is_recorded_with_before_after_and_why(operator: Client) -> None:
    limit = Limit.objects.get(name="phase:prep")
    values = limit_form(limit, max_running=7, reserved_high=2, reason="slow disks")
    text_of(operator.post(page("limit", limit.pk, view="change"), values, follow=True))
    change = AuditEntry.objects.get()
    assert (change.actor, change.source, change.reason) == ("sam", "admin", "slow disks")
    assert change.before == {"max_running": 0, "reserved_high": 0}
    assert change.after == {"max_running": 7, "reserved_high": 2}
    limit.refresh_from_db()
    assert (limit.max_running, limit.reserved_high) == (7, 2)


@pytest.mark.parametrize(
    ("name", "values", "error"),
    [
        ("phase:prep", {"max_running": 2, "reserved_high": 2}, "reserved_high must be smaller"),
        ("phase:prep", {"max_running": -1}, "greater than or equal to 0"),
        ("cpu", {"daily_budget": 5}, "A resource counts what runs, not what that uses"),
        ("cpu", {"allowances": "5 tokens/day"}, "A resource counts what runs, not what that uses"),
        ("host:*", {"rate": "3 a second"}, "is not understood; write it like"),
        ("host:*", {"budget_zone": "Europe/Bonn"}, "is not known; use an IANA name"),
        ("host:*", {"reserved_for_high_percent": 101}, "less than or equal to 100"),
    ],
)
def test_impossible_values_are_refused_with_the_reason(
    operator: Client, name: str, values: dict[str, Any], error: str
) -> None:
    limit = Limit.objects.get(name=name)
    posted = limit_form(limit, **{"max_running": 4, **values})
    assert error in text_of(operator.post(page("limit", limit.pk, view="change"), posted))
    assert not AuditEntry.objects.exists()


def test_saving_a_limit_unchanged_records_nothing(operator: Client) -> None:
    limit = Limit.objects.get(name="host:*")
    url = page("limit", limit.pk, view="change")
    text_of(operator.post(url, limit_form(limit), follow=True))
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("name", ["host:arxiv.org:443", "disk:*", "host:[::1]:80", "gpu"])
def test_a_limit_may_be_added_for_a_key_a_pattern_or_a_resource(operator: Client, name: str) -> None:
    new = {} if name.startswith("host:") else {"new": "on"}
    posted = limit_form(name=name, max_running=3, reason="asked to", **new)
    text_of(operator.post(page("limit", view="add"), posted, follow=True))
    assert Limit.objects.get(name=name).max_running == 3
    assert (AuditEntry.objects.get().target, AuditEntry.objects.get().reason) == (name, "asked to")


@pytest.mark.parametrize(
    "name",
    [
        "prep",
        "phase:nonsense",
        "phase:*",
        "*",
        "host:",
        "ho*st:a",
        "host:a b",
        "fleet ",
        "virtual_time",
        "prep.high",
        "cpu=2",
    ],
)
def test_a_limit_no_work_could_run_under_is_not_added(operator: Client, name: str) -> None:
    before = Limit.objects.count()
    for new in ({}, {"new": "on"}):
        posted = limit_form(name=name, max_running=3, **new)
        text = text_of(operator.post(page("limit", view="add"), posted))
        assert "is not a limit" in text or "no limit is called" in text or "already exists" in text
    assert Limit.objects.count() == before


def test_a_mistyped_name_is_refused_with_what_may_be_meant_unless_it_is_said_to_be_new(
    operator: Client,
) -> None:
    posted = limit_form(name="hots:a", max_running=3)
    text = unescape(text_of(operator.post(page("limit", view="add"), posted)))
    assert "did you mean 'host:a'?" in text and "If it is new, say so" in text
    assert not Limit.objects.filter(name="hots:a").exists()
    operator.post(page("limit", view="add"), {**posted, "new": "on"})
    assert Limit.objects.get(name="hots:a").max_running == 3


def test_limits_show_their_usage_and_who_waits(
    operator: Client, make_worker: Callable[..., WorkerRow], sent: list[Any]
) -> None:
    from queuemgr.lifecycle.dispatch import dispatch

    make_worker(slots=8)
    controls.edit_limit("host:*", Actor("sam", "command"), max_running=2)
    controls.edit_limit("phase:wrap", Actor("sam", "command"), daily_budget=1)
    for n in range(5):
        enqueue("probe", f"doc:{n}", {"limit_key": "host:a.example:443"})
    for n in range(2):
        enqueue("probe", f"paid:{n}", {"phase": "wrap", "requests": 1})
    dispatch()
    rows = {row.name: row for row in operator.get(page("limit")).context["cl"].result_list}
    assert rows["host:*"].in_use == "1 key, the fullest 2 / 2"
    assert rows["host:*"].waits == "3 wait: host:a.example:443 2/2"
    assert (
        rows["phase:wrap"].limit_status.allowances()[0].startswith("requests 0 and 1 reserved of 1 per day")
    )
    assert rows["phase:wrap"].waits.startswith("1 wait: phase:wrap requests 0 of 1 per day spent")
    assert rows["fleet"].in_use == "3 / 200"
