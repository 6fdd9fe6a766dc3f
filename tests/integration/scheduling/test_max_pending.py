"""Full queues: what they refuse, and that concurrent work does not pass their caps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from queuemgr.base.errors import QueueFull
from queuemgr.flows.flow import LOW, NewExecution
from queuemgr.lifecycle.enqueue import enqueue, enqueue_many
from queuemgr.models import Execution, Queue
from queuemgr.scheduling import limit_rows
from tests.integration.scheduling.limited_work import Probes

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rows_of_limits")]


def test_a_full_queue_refuses_new_work_and_says_how_many_were_enqueued(probes: Probes) -> None:
    controls_queue = Queue.objects.filter(name="prep.low")
    limit_rows.sync()
    controls_queue.update(max_pending=3)
    many = [NewExecution(f"k{n}", {}) for n in range(5)]
    with pytest.raises(
        QueueFull, match=r"queue prep.low is full: 3 wait, its max_pending is 3; 3 were enqueued before"
    ):
        enqueue_many("probe", many, priority=LOW)
    assert Execution.objects.count() == 3
    again = enqueue_many("probe", many[:3], priority=LOW)
    assert (again.new, again.already) == (0, 3), "what is there already is no new work"
    assert enqueue_many("probe", many[3:]).new == 2, "other queues have room"


@pytest.mark.only_on("postgres", why="needs a server's connections")
def test_concurrent_enqueues_do_not_exceed_max_pending_together(
    probes: Probes, in_threads: Callable[..., list[Any]]
) -> None:
    limit_rows.sync()
    Queue.objects.filter(name="prep.low").update(max_pending=10)

    def enqueue_some(number: int) -> int:
        try:
            return enqueue_many(
                "probe", [NewExecution(f"t{number}-{n}", {}) for n in range(6)], priority=LOW
            ).new
        except QueueFull as full:
            return full.new

    assert sum(in_threads(4, enqueue_some)) == 10
    assert Execution.objects.count() == 10


def test_the_depth_of_a_queue_is_counted_no_further_than_its_cap(probes: Probes) -> None:
    probes(5, priority=LOW)
    Queue.objects.filter(name="prep.low").update(max_pending=3)
    with pytest.raises(QueueFull) as full:
        enqueue("probe", "one more", priority=LOW)
    assert full.value.depth == 3
