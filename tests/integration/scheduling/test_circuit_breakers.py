"""Breakers: throttled by the service, opened by failures or a used-up quota, half-open, reset by a person."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test.utils import CaptureQueriesContext

from queuemgr.base import transaction
from queuemgr.base.queue_database import connection
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.outcomes import Failed
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import Execution, Lease, LimitState
from queuemgr.operations import controls
from queuemgr.scheduling import breakers, wakeups
from tests.integration.scheduling.limited_work import ANN, Played, Probes, leased

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rows_of_limits")]


def test_a_retry_after_throttles_the_limit_for_the_whole_fleet_and_then_it_half_opens(
    played: Played, probes: Probes
) -> None:
    """The wait is nobody's slot, and no worker asks the service before it is over."""
    worker = played(slots=8)
    probes(12, limit_key="host:a", prefix="a")
    first, *rest = worker.begin_all()
    worker.end(first, Failed("rate_limited", "429", retry_after=60))
    state = LimitState.objects.get(name="host:a")
    assert state.open_until is not None
    wait = state.open_until - database_now()
    assert timedelta(seconds=58) < wait < timedelta(seconds=67), "jitter is only ever added"
    for grant in rest:
        worker.end(grant)
    assert leased() == 0
    probes(2, limit_key="host:b", prefix="b")
    assert leased() == 2, "other limits still start work"
    Lease.objects.filter(limit_keys="host:b").delete()
    LimitState.objects.update(open_until=database_now())
    wakeups.post(limits=["host:a"])
    dispatch()
    for expected in (1, 2, 4):
        assert Lease.objects.filter(limit_keys="host:a").count() == expected
        for grant in worker.begin_all():
            worker.end(grant, next_too=False)


def test_failures_to_reach_a_service_open_its_breaker_and_an_answer_closes_it(
    played: Played, probes: Probes
) -> None:
    controls.edit_limit("host:*", ANN, breaker_after=3, max_running=1)
    worker = played(slots=1)
    probes(9, limit_key="host:a")
    for _ in range(2):
        worker.end(*worker.begin_all() or Lease.objects.none(), Failed("network", "refused"), next_too=False)
        dispatch()
    assert not LimitState.objects.get(name="host:a").open_until
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("not_found", "404: an answer"), next_too=False)
    assert LimitState.objects.get(name="host:a").failures == 0
    for _ in range(3):
        dispatch()
        (grant,) = worker.begin_all()
        worker.end(grant, Failed("timeout", "slow"), next_too=False)
    state = LimitState.objects.get(name="host:a")
    assert state.open_until is not None and state.open_reason == "3 x timeout in a row"
    dispatch()
    assert leased() == 0


def test_a_used_up_quota_opens_the_breaker_until_the_day_ends(played: Played, probes: Probes) -> None:
    """One request learns it; the others wait, and their reason says why."""
    worker = played(slots=1)
    probes(5, limit_key="llm:chat")
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("quota", "insufficient_quota"))
    assert leased() == 0
    assert Execution.objects.waiting().count() == 4
    state = LimitState.objects.get(name="llm:chat")
    assert state.open_until is not None and state.open_until.hour == 0


def test_a_person_can_reset_an_open_breaker(played: Played, probes: Probes) -> None:
    played(slots=1)
    breakers.open_breaker("host:a", database_now() + timedelta(hours=1), "429")
    probes(1, limit_key="host:a")
    assert leased() == 0
    controls.resume("host:a", ANN)
    assert leased() == 1


def test_a_failing_service_does_not_open_the_breaker_of_the_tenant(played: Played, probes: Probes) -> None:
    worker = played(slots=1)
    probes(1, limit_key="host:a", tenant="acme")
    worker.end(worker.begin_all()[0], Failed("rate_limited", "429", retry_after=60))
    assert list(LimitState.objects.filter(open_until__isnull=False).values_list("name", flat=True)) == [
        "host:a"
    ]


@pytest.mark.only_on("postgres", why="SQLite locks no rows")
def test_breakers_are_locked_in_one_order_whatever_the_collation_of_the_database() -> None:
    """What is recorded after an end locks them one by one, in the order of `sorted`: in that of a language
    (`alpha` before `Zeta`) the two would deadlock."""
    names = ["model:alpha", "model:Zeta"]
    with transaction.atomic(), CaptureQueriesContext(connection) as seen:
        assert list(breakers.lock(names)) == sorted(names)
    assert 'ORDER BY name COLLATE "C" FOR NO KEY UPDATE' in seen[0]["sql"]
