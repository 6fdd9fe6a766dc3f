"""Whatever the fleet: a start is sent for the kind of slot that is idle for it, and an assigned one fits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from queuemgr.flows.flow import async_queue
from queuemgr.lifecycle.scheduler import FreeSlots, assign, sent_to_async_slots
from queuemgr.scheduling.admission import admit
from queuemgr.scheduling.decision_input import Snapshot
from tests.private_servers import MODEL_EXAMPLES
from tests.unit.scheduling.generated_fleets import matchable, slot_of, snapshots

often = settings(max_examples=max(60, 6 * MODEL_EXAMPLES), deadline=None)


def sent(seen: Snapshot, to_send: Counter[int], to_async: Counter[int]) -> list[str]:
    """The Celery queues of these leases."""
    queues = {route.id: route.queue for route in seen.routes}
    some = [queues[pk] for pk in (to_send - to_async).elements()]
    return some + [async_queue(queues[pk]) for pk in to_async.elements()]


@given(snapshots())
@often
def test_every_lease_is_sent_for_a_slot_of_its_kind_that_is_idle(seen: Snapshot) -> None:
    decision = admit(seen)
    starts = Counter(decision.starts)
    to_async = sent_to_async_slots(decision, seen, starts, Counter(), None)
    assert all(route.is_async for route in seen.routes if to_async[route.id])
    before = list(Counter(seen.unstarted).elements())
    leases = [*before, *sent(seen, starts, to_async)]
    assert matchable(seen, leases) == matchable(seen, before) + len(decision.starts)


@given(snapshots(), st.integers(0, 3), st.integers(1, 6))
@often
def test_what_free_slots_are_assigned_fits_and_the_rest_has_the_other_slots(
    seen: Snapshot, number: int, free: int
) -> None:
    seen = replace(seen, unstarted={})
    groups = [group for group, idle in seen.idle.items() if idle]
    if not groups:
        return
    group = groups[number % len(groups)]
    slots = FreeSlots(1, group, min(free, seen.idle[group]))
    decision = admit(seen)
    assigned = assign(decision, seen, slots)
    assert assigned.total() <= slots.free
    assert all(slot_of(route) in group for route in seen.routes if assigned[route.id])
    to_send = Counter(decision.starts) - assigned
    to_async = sent_to_async_slots(decision, seen, to_send, assigned, slots)
    rest = replace(seen, idle={**seen.idle, group: seen.idle[group] - assigned.total()})
    leases = sent(seen, to_send, to_async)
    assert matchable(rest, leases) == len(leases)
