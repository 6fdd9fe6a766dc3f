"""Caps of several keys, resources by weight, work that never fits, rows that settings and people write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from queuemgr.base.errors import NeverFits
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Execution, Lease, Limit, Route, State
from queuemgr.operations import controls, executions
from queuemgr.scheduling import limit_rows
from tests.integration.conftest import rule_of
from tests.integration.scheduling.limited_work import ANN, Played, Probes, leased

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rows_of_limits")]


def test_a_start_must_pass_each_of_several_keys(played: Played, probes: Probes) -> None:
    controls.edit_limit("tenant:acme", ANN, max_running=1)
    played(slots=9)
    probes(3, limit_key="host:a", tenant="acme", prefix="a")
    probes(3, limit_key="host:a", tenant="emca", prefix="b")
    running = sorted(Lease.objects.values_list("limit_keys", flat=True))
    assert running == ["host:a tenant:acme"] + ["host:a tenant:emca"] * 3
    assert rule_of("host:a").max_running == 4


def test_resources_are_counted_by_their_own_weights(played: Played, probes: Probes) -> None:
    controls.edit_limit("cpu", ANN, max_running=4)
    worker = played(slots=9)
    probes(9, resources={"cpu": 2}, prefix="big")
    assert leased() == 2
    probes(9, prefix="free")
    assert leased() == 9, "work without resources still starts"
    (first, *_) = [g for g in worker.begin_all() if g.key.startswith("big")]
    worker.end(first)
    assert Lease.objects.filter(resources="cpu=2").count() == 2


def test_without_the_scheduler_resources_do_not_bind_and_plain_caps_do(
    played: Played, probes: Probes, configure: Callable[..., None]
) -> None:
    configure(scheduler=False, cpu_resources=1, max_prep=5)
    limit_rows.sync()
    played(slots=9)
    probes(9, resources={"cpu": 1})
    assert leased() == 5


def test_low_resource_mode_gives_a_small_machine_few_resources(configure: Callable[..., None]) -> None:
    configure(low_resource=True, io_resources=7)
    limit_rows.sync()
    assert [rule_of(name).max_running for name in ("cpu", "io", "memory")] == [1, 7, 2]


def test_work_no_limit_could_ever_admit_is_refused_naming_the_limit(probes: Probes) -> None:
    controls.edit_limit("memory", ANN, max_running=4)
    with pytest.raises(NeverFits, match="weight 5 is above max_running=4 of limit 'memory'"):
        enqueue("probe", "x", {"resources": {"memory": 5}})
    controls.edit_limit("tenant:acme", ANN, daily_budget=200, reserved_for_high_percent=10)
    with pytest.raises(NeverFits, match="of which 20 are reserved for higher priority"):
        enqueue("probe", "x", {"tenant": "acme", "requests": 190})
    assert not Execution.objects.exists()


def test_a_parked_route_is_unparked_by_whatever_allows_it_to_start(played: Played, probes: Probes) -> None:
    worker = played(slots=9)
    probes(6, limit_key="host:a")
    dispatch()
    assert Route.objects.get().parked_on == "host:a"
    first, *_ = worker.begin_all()
    assert len(worker.end(first)) == 1, "the end of a lease under it"
    controls.edit_limit("host:a", ANN, max_running=5)
    assert leased() == 5, "a raised cap"
    executions.cancel(Execution.objects.waiting(), ANN)
    for grant in worker.begin_all():
        worker.end(grant)
    assert Execution.objects.filter(state=State.DONE).count() >= 1


def test_a_limit_edited_before_any_worker_registered_keeps_the_edit(configure: Callable[..., None]) -> None:
    Limit.objects.all().delete()
    configure(max_prep=7)
    controls.edit_limit("phase:prep", ANN, max_running=2)
    limit_rows.sync()
    assert rule_of("phase:prep").max_running == 2


def test_without_the_scheduler_every_limit_of_a_key_holds_whatever_its_name(
    played: Played, probes: Probes, configure: Callable[..., None]
) -> None:
    configure(scheduler=False, cpu_resources=1)
    limit_rows.sync()
    values = {"allowances": "6 tokens/day; 9 starts/hour", "max_running": 3}
    controls.edit_limit("model", ANN, new=True, **values)
    played(slots=9)
    probes(5, limit_key="model", uses={"tokens": 3}, prefix="tokens")
    assert leased() == 2
    probes(5, limit_key="model", resources={"cpu": 1}, prefix="plain")
    assert leased() == 3
