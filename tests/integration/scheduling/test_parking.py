"""Parked routes: whatever they are parked on, none waits longer than what stops it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Execution, Lease, Route, Worker
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from tests.model.passing_time import let_pass

pytestmark = pytest.mark.django_db(transaction=True)
Played = Callable[..., Any]
Probes = Callable[..., list[Execution]]
ANN = Actor("ann", "test", "because")


def test_work_that_fell_due_in_a_full_phase_does_not_hide_what_fell_due_elsewhere(
    played: Played, probes: Probes
) -> None:
    """There is one idle slot, so one route that fell due is looked at; the first of them cannot
    start, and its time came first as long as its phase is full."""
    worker = played(slots=2)
    controls.edit_limit("phase:prep", ANN, max_running=1)
    for seconds, phase in ((30, "prep"), (31, "wrap")):
        due = database_now() + timedelta(seconds=seconds)
        enqueue("probe", phase, {"phase": phase, "limit_key": f"host:{phase}"}, run_after=due)
    probes(1)
    worker.begin_all()
    assert Route.objects.filter(parked_on="run_after").count() == 2
    let_pass(40)
    dispatch()
    assert Lease.objects.filter(phase="wrap").count() == 1
    dispatch()
    assert Lease.objects.filter(phase="prep").count() == 1, "it is still full"


@pytest.mark.parametrize("key", ["tenant:acme.low", "host:files.high"])
def test_a_route_can_be_parked_on_a_key_named_like_a_queue(played: Played, probes: Probes, key: str) -> None:
    """Were it taken for a queue, its being full would hide all the other work of its queue."""
    played(slots=3)
    controls.edit_limit(key, ANN, max_running=1)
    probes(1, limit_key=key)
    for number in range(4):
        probes(1, limit_key=f"{key} host:{number}", prefix=f"stopped{number}-")
    probes(2, limit_key="host:free", prefix="free")
    assert Lease.objects.count() == 3
    assert Route.objects.filter(parked_on=key).count() == 4


def test_an_unstarted_lease_for_a_worker_that_left_occupies_no_slot_of_the_others(
    played: Played, probes: Probes
) -> None:
    left = played(slots=1, queues=["prep.normal"])
    probes(1)
    Worker.objects.filter(pk=left.row.pk).update(draining_at=database_now())
    played(slots=1, queues=["wrap.normal"])
    probes(1, phase="wrap", prefix="w")
    assert Lease.objects.filter(phase="wrap").count() == 1
