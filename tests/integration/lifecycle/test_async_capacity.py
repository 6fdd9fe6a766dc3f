"""Leases of asynchronous steps and of others, granted to a fleet that has slots for both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from queuemgr.flows import flow
from queuemgr.flows.flow import Flow, NewExecution, Phase, Step
from queuemgr.flows.outcomes import Done, Interrupted
from queuemgr.lifecycle import begin, finish
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.lifecycle.finish import Finish
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.scheduler import FreeSlots
from queuemgr.models import Execution, Lease, Worker
from queuemgr.scheduling.capacity import async_group_of, group_of

SLOTS, ASYNC_SLOTS = 2, 3


@pytest.fixture
def asynchronous(
    monkeypatch: pytest.MonkeyPatch, transactional_db: None, sent: list[Any]
) -> Callable[..., None]:
    """Enqueue so many executions of an asynchronous step, whose leases have no worker yet."""
    step = Step("act", "asynchronous.act", is_async=True, key=lambda context: context.get("key", ""))
    made = Flow("asynchronous", (Phase("prep", 0, "waiting", "running", (step,)),))
    monkeypatch.setitem(flow._flows, made.name, made)

    def make(count: int, prefix: str = "a", **payload: Any) -> None:
        enqueue_many(made.name, [NewExecution(f"{prefix}{n}", payload) for n in range(count)])

    return make


@pytest.fixture
def mixed(transactional_db: None, make_worker: Callable[..., Worker]) -> Worker:
    row = make_worker(slots=SLOTS)
    Worker.objects.filter(pk=row.pk).update(async_slots=ASYNC_SLOTS)
    row.refresh_from_db()
    return row


def held() -> Counter[bool]:
    """How many leases there are for each kind of slot; True: async slots."""
    return Counter(Lease.objects.values_list("is_async", flat=True))


def begin_all(worker: Worker) -> list[Grant]:
    return begin.begin(list(Lease.objects.unstarted().values_list("pk", flat=True)), worker.pk).grants


def end(grant: Grant, result: Any, free_slots: FreeSlots | None) -> list[Grant]:
    ended = finish.finish_batch([Finish(grant.lease_id, result)], free_slots)
    return ended.granted.assigned if ended.granted else []


@pytest.mark.only_on("postgres", why="needs several connections")
def test_decisions_racing_each_other_never_pass_the_slots_of_either_kind(
    mixed: Worker, asynchronous: Callable[..., None], probes: Any, in_threads: Callable[..., Any]
) -> None:
    asynchronous(9)
    probes(9)
    in_threads(4, lambda number: dispatch())
    assert held() == {False: SLOTS, True: ASYNC_SLOTS}
    begin_all(mixed)
    in_threads(4, lambda number: dispatch())
    assert held() == {False: SLOTS, True: ASYNC_SLOTS}


def test_a_free_slot_is_assigned_work_of_its_kind_however_much_of_the_other_waits_before_it(
    mixed: Worker, asynchronous: Callable[..., None], probes: Any
) -> None:
    """On more routes than are read for the slots of the other kind."""
    for number in range(20):
        probes(2, limit_key=f"key:{number}", prefix=f"p{number}-")
    for number in range(20):
        asynchronous(2, prefix=f"a{number}-", key=f"other:{number}")
    dispatch()
    grants = begin_all(mixed)
    assert held() == {False: SLOTS, True: ASYNC_SLOTS}
    takes = {True: async_group_of(mixed.queues), False: group_of(mixed.queues, has_async=True)}
    for is_async in (True, False, True):
        grant = next(each for each in grants if each.is_async == is_async)
        grants.remove(grant)
        (assigned,) = end(grant, Done(), FreeSlots(mixed.pk, takes[is_async], 1))
        assert assigned.is_async == is_async
        assert held() == {False: SLOTS, True: ASYNC_SLOTS}
        grants.append(assigned)


def test_a_worker_without_async_slots_takes_both_in_its_slots(
    make_worker: Callable[..., Worker], asynchronous: Callable[..., None], probes: Any
) -> None:
    worker = make_worker(slots=4)
    asynchronous(3)
    probes(3)
    dispatch()
    assert held() == {False: 4}
    assert {grant.flow for grant in begin_all(worker)} == {"asynchronous", "probe"}


def test_work_whose_step_became_a_plain_function_waits_for_a_slot(
    mixed: Worker, asynchronous: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asynchronous(1)
    dispatch()
    (grant,) = begin_all(mixed)
    assert grant.is_async
    plain = Flow(
        "asynchronous", (Phase("prep", 0, "waiting", "running", (Step("act", "asynchronous.act"),)),)
    )
    monkeypatch.setitem(flow._flows, plain.name, plain)
    end(grant, Interrupted("in this release its step is not asynchronous"), None)
    assert not Execution.objects.get().route.is_async  # type: ignore[union-attr]  # it waits
    dispatch()
    assert held() == {False: 1}
