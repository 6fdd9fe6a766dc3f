"""Steps and flows: run times and failures of a window beside a week before, by step and by limit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from queuemgr.models import Attempt, Execution, Outcome
from queuemgr.reporting import step_times
from tests.integration.web.admin.admin_pages import an_attempt, text_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def execution(probes: Any) -> Execution:
    (made,) = probes(1)
    return made


def ended(execution: Execution, seconds: float, outcome: str = Outcome.DONE, weeks: int = 0) -> None:
    at = timezone.now() - timedelta(weeks=weeks, minutes=10)
    attempt = an_attempt(execution, outcome, limit_keys="host:a tenant:b")
    Attempt.objects.filter(pk=attempt.pk).update(started_at=at - timedelta(seconds=seconds), ended_at=at)


def test_a_step_is_compared_with_the_same_time_a_week_before(execution: Execution, operator: Client) -> None:
    for seconds in (20, 20):
        ended(execution, seconds, weeks=1)
    for seconds, outcome in ((1.5, Outcome.DONE), (200, Outcome.FAILED), (1.5, Outcome.SNOOZED)):
        ended(execution, seconds, outcome)
    response = operator.get(reverse("admin:step_times"))
    assert "was 2" in text_of(response)
    found = response.context["found"]
    (step,) = found.steps
    assert (step.name, step.now.attempts, step.before.attempts) == ("probe: prep/probe", 2, 2)
    assert (step.now.failure_rate, step.before.failure_rate) == (0.5, 0)
    assert (round(step.now.total), round(step.before.total)) == (202, 40)
    assert step.now.p95 > 120 > step.before.p95
    assert [one.name for one in found.limits] == ["host:a", "tenant:b"]
    assert round(found.slowest[0].seconds) == 200


def test_ten_times_the_attempts_cost_no_more_rows_and_sums_are_scaled(
    execution: Execution, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_times, "SAMPLE", 10)
    for _ in range(40):
        ended(execution, 3)
    with CaptureQueriesContext(connection) as captured:
        found = step_times.step_times(timedelta(hours=1), timezone.now())
    assert (found.read, found.in_window, round(found.steps[0].now.total)) == (10, 40, 120)
    assert len(captured) <= 5


def test_a_window_without_attempts_and_one_that_is_none_are_shown(operator: Client) -> None:
    assert "No attempt ended" in text_of(operator.get(reverse("admin:step_times"), {"window": "<b>"}))


@pytest.mark.parametrize("seconds", [0.0, 0.26, 0.581, 4.9, 100_000.0])
def test_no_percentile_is_above_the_longest_attempt(seconds: float) -> None:
    times = step_times.Times("probe")
    for number in range(3):
        times.add(step_times.Ran(number, 1, "f", "k", "p", "s", "", "done", seconds))
    assert times.p50 is not None and times.p95 is not None
    assert times.p50 <= times.p95 <= seconds
