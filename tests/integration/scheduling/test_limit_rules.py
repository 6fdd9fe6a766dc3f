"""What is read of limits: rules, breaker states and pauses, each under its own name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from queuemgr.base.scheduler_lock import hold_scheduler_lock
from queuemgr.flows.flow import HIGH
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import Limit, LimitState, Queue, Route
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows, wakeups
from queuemgr.scheduling.claims import TENANT
from queuemgr.scheduling.limit_rules import LimitStates, limit_states_of, read_limit_states

pytestmark = pytest.mark.django_db

NAMES = ("host:ruled", "host:used", "host:both", "host:neither")


@pytest.fixture(autouse=True)
def _world() -> None:
    limit_rows.sync()
    Limit.objects.create(name="host:ruled", max_running=3)
    Limit.objects.create(name="host:both", max_running=4)
    LimitState.objects.create(name="host:used", open_reason="seven")
    LimitState.objects.create(name="host:both", open_reason="eight", half_open_starts=2)


def caps(states: LimitStates) -> dict[str, int]:
    return {n: r.max_running for n, r in states.rules.items() if n in NAMES}


def opened(states: LimitStates) -> dict[str, str]:
    return {n: g.open_reason for n, g in states.breaker_states.items() if n in NAMES}


@pytest.mark.parametrize("named", [True, False])
def test_a_key_may_have_a_rule_a_state_both_or_neither(named: bool) -> None:
    now = timezone.now()
    states = limit_states_of(NAMES, now) if named else read_limit_states(now, keys=True)
    assert caps(states) == {"host:ruled": 3, "host:both": 4}
    assert opened(states) == {"host:used": "seven", "host:both": "eight"}
    assert states.breaker_states["host:both"].half_open_starts == 2


def test_keys_are_read_only_when_asked_for() -> None:
    states = read_limit_states(timezone.now(), keys=False)
    assert {*caps(states), *opened(states)} == set()
    assert {"fleet", "phase:prep"} <= set(states.rules)
    assert limit_states_of([], timezone.now()) == LimitStates()


def test_a_paused_queue_pauses_no_limit_of_its_name() -> None:
    now = timezone.now()
    pause: dict[str, Any] = {"paused_at": now, "paused_by": "ada", "pause_reason": "rest"}
    Queue.objects.filter(name="prep.high").update(**pause)
    Queue.objects.filter(name="prep.low").update(**pause, paused_until=now - timedelta(seconds=1))
    Limit.objects.create(name="prep.high", max_running=1)
    states = read_limit_states(now, keys=False)
    assert states.rules["prep.high"].paused == ""
    assert [r.text for r in states.paused_queues.values()] == ["prep.high paused by ada: rest"]


def test_a_limit_rule_is_read_with_its_pause_and_when_that_ends() -> None:
    now, until = timezone.now(), timezone.now() + timedelta(hours=1)
    Limit.objects.filter(name="host:ruled").update(paused_at=now, paused_until=until)
    rule = limit_states_of(NAMES, now).rules["host:ruled"]
    assert (rule.paused_until, rule.paused[:17]) == (until, "paused by someone")


def test_the_virtual_time_of_tenants_is_read_and_of_no_other_key() -> None:
    LimitState.objects.create(name=f"{TENANT}acme", virtual_time=2.5)
    LimitState.objects.filter(name="host:used").update(virtual_time=1.0)
    assert limit_states_of(["host:used", f"{TENANT}acme"], timezone.now()).virtual_times == {
        f"{TENANT}acme": 2.5
    }


def test_a_queue_is_fully_parked_while_every_route_on_it_is_parked(probes: Any) -> None:
    probes(1, limit_key="host:a")
    probes(1, limit_key="host:b")
    assert fully_parked("prep.normal") == {True}, "nothing was begun, so nothing is resumed"
    Route.objects.filter(limit_keys="host:a").update(parked_on="host:a")
    assert fully_parked("prep.normal") == {True}
    Route.objects.filter(limit_keys="host:b").update(parked_on="host:b")
    assert fully_parked("prep.normal") == {True, False}
    assert fully_parked("prep.high") == {True, False}


def fully_parked(queue: str) -> set[bool]:
    states = read_limit_states(timezone.now(), keys=False)
    return {resumed for name, resumed in states.fully_parked if name == queue}


def test_due_work_on_a_fully_parked_queue_starts_though_every_other_queue_is_paused(
    played: Any, probes: Any
) -> None:
    (due,) = probes(1, limit_key="host:a")
    probes(1, priority=HIGH)
    controls.pause("prep.high", Actor("ann", "test"))
    worker = played(slots=2)
    with hold_scheduler_lock() as lock:
        wakeups.consume(lock)  # nothing else says that the route may be looked at again
    Route.objects.filter(limit_keys="host:a").update(parked_on="run_after", parked_until=due.created_at)
    assert fully_parked("prep.normal") == {True, False}
    dispatch()
    assert [grant.execution_id for grant in worker.begin_all()] == [due.pk]
