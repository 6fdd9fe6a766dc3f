"""Daily budgets, with their zones and reserves, and fair shares between tenants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, time
from importlib import import_module
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
from django.apps import apps
from django.db import connection

from queuemgr.base.budget_day import day_of
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import flow
from queuemgr.flows.flow import HIGH, PRIORITIES, application_flows
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import AllowanceUsage, Lease, Limit
from queuemgr.operations import controls
from queuemgr.scheduling import candidates, limit_rows, wakeups
from queuemgr.scheduling.limit_rules import rule_from
from tests.integration.scheduling.limited_work import ANN, Played, Probes, leased

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rows_of_limits")]


def test_a_budgets_day_is_kept_in_its_own_zone(played: Played, probes: Probes) -> None:
    zone = "Pacific/Kiritimati"  # 14 hours ahead: its day is seldom the day of UTC
    controls.edit_limit("tenant:acme", ANN, daily_budget=2, budget_zone=zone)
    worker = played(slots=9)
    probes(5, tenant="acme", requests=1)
    grants = worker.begin_all()
    assert len(grants) == 2
    for grant in grants:
        worker.end(grant)
    usage = AllowanceUsage.objects.get(limit="tenant:acme")
    midnight = datetime.combine(day_of(database_now(), zone), time(), ZoneInfo(zone))
    assert (usage.starts_at, usage.spent) == (midnight, 2)
    today = database_now().astimezone(UTC).date()
    assert AllowanceUsage.objects.get(limit="fleet").starts_at == datetime.combine(today, time(), UTC)
    assert leased() == 0
    AllowanceUsage.objects.update(starts_at=datetime(2020, 1, 1, tzinfo=UTC))
    wakeups.post(limits=[candidates.budget_of("tenant:acme")])
    dispatch()
    assert leased() == 2, "another day, another budget"


def test_the_last_tenth_of_a_budget_is_reserved_for_high_priority(
    played: Played, probes: Probes, configure: Callable[..., None]
) -> None:
    configure(daily_budget=100)
    limit_rows.sync()
    worker = played(slots=50)
    probes(4, requests=30, prefix="normal")
    probes(1, requests=10, priority=HIGH, prefix="high")
    assert Lease.objects.filter(execution__key__startswith="normal").count() == 3
    assert Lease.objects.filter(execution__key__startswith="high").count() == 1
    assert worker.begin_all()


@pytest.mark.parametrize("limit", ["fleet", "api"])
@pytest.mark.parametrize("budget", [99, 100, 1000])
def test_a_budget_that_a_flow_states_may_be_spent_whole(
    monkeypatch: pytest.MonkeyPatch, limit: str, budget: int
) -> None:
    fields = {limit: {"daily_budget": budget}}
    stating = replace(application_flows()[0], name="stating", limits=lambda: fields)
    monkeypatch.setitem(flow._flows, "stating", stating)
    limit_rows.sync()
    rule = rule_from(database_now(), Limit.objects.get(name=limit))
    assert rule.budget
    assert [rule.budget.usable(priority) for priority in PRIORITIES.values()] == [budget] * 3


def test_upgrading_frees_the_reserves_of_budgets_that_nobody_stated() -> None:
    stated = {"reserved_for_high_percent": 10}
    for name, kept in (("plain", {}), ("stated", stated), ("edited", {})):
        Limit.objects.create(name=name, daily_budget=100, from_settings=kept, **stated)
    Limit.objects.create(name="another", reserved_for_high_percent=20)
    controls.edit_limit("edited", ANN, reserved_for_high_percent=15)
    controls.edit_limit("edited", ANN, **stated)
    migration = import_module("queuemgr.migrations.0013_whole_budgets")
    migration.free_reserves_nobody_stated(apps, SimpleNamespace(connection=connection))
    percents = dict(Limit.objects.values_list("name", "reserved_for_high_percent"))
    assert [percents[n] for n in ("plain", "stated", "edited", "another")] == [0, 10, 10, 20]


def test_tenants_are_served_by_their_shares_however_many_keys_each_has(
    played: Played, probes: Probes
) -> None:
    controls.edit_limit("tenant:big", ANN, share=3)
    worker = played(slots=1)
    for host in range(6):
        probes(10, limit_key=f"host:{host}", tenant="big", prefix=f"big{host}-")
    probes(10, limit_key="host:x", tenant="small", prefix="small")
    order = []
    (grant,) = worker.begin_all()
    for _ in range(16):
        order.append(grant.key[:3])
        (grant,) = worker.end(grant)
    assert order.count("big") in (11, 12, 13)
