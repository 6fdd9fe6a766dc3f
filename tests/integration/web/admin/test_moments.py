"""Moments have one form, in the time zone of who looks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from queuemgr.base.time_text import moment_text
from queuemgr.models import Execution
from tests.integration.web.admin.admin_pages import an_attempt, page, text_of
from tests.integration.web.admin.execution_pages import own_page

pytestmark = pytest.mark.django_db(transaction=True)

NO_ZONES = ("", "../etc/passwd", "Europe", "Mars/Phobos", "x" * 99)
AT = datetime(2026, 7, 1, 22, 30, 7, tzinfo=UTC)


def test_without_the_date_of_today_and_never_without_the_zone() -> None:
    assert moment_text(AT) == "2026-07-01 22:30:07 UTC"
    assert moment_text(AT, AT) == "22:30:07 UTC"


def test_a_page_and_a_list_show_them_in_the_zone_of_the_browser(probes: Any, operator: Client) -> None:
    (execution,) = probes(1)
    Execution.objects.update(created_at=AT)
    attempt = an_attempt(execution)
    type(attempt).objects.update(ended_at=AT)
    for zone, shown in (
        ("Europe/Berlin", "2026-07-02 00:30:07 CEST"),
        ("Asia/Kathmandu", "2026-07-02 04:15:07 +0545"),
        *(
            (bad, "2026-07-01 22:30:07 UTC")
            for bad in ("", "../etc/passwd", "Europe", "Mars/Phobos", "x" * 99)
        ),
    ):
        operator.cookies["sluice_zone"] = zone
        for url in (own_page(execution), page("attempt")):
            assert shown in text_of(operator.get(url)), (zone, url)
