"""A page whose change found the scheduler lock busy for long says so, and who holds it."""

from __future__ import annotations

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from project import settings
from queuemgr.base.scheduler_lock import SchedulerLockBusy
from queuemgr.web.busy_lock import BusyLock


def test_a_change_that_found_the_lock_busy_is_answered_with_503_and_the_holders_name() -> None:
    held = SchedulerLockBusy("the scheduler lock was busy for 10 s, held by pid 7 (sluicegate worker)")
    middleware = BusyLock(lambda request: HttpResponse())
    answer = middleware.process_exception(RequestFactory().post("/admin/"), held)
    assert answer is not None and (answer.status_code, answer["Retry-After"]) == (503, "10")
    assert "Nothing was changed" in answer.content.decode() and "held by pid 7" in answer.content.decode()


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x")])
def test_other_errors_are_left_to_django(error: Exception) -> None:
    assert BusyLock(lambda request: HttpResponse()).process_exception(HttpRequest(), error) is None


def test_pages_have_it() -> None:
    assert "queuemgr.web.busy_lock.BusyLock" in settings.MIDDLEWARE
