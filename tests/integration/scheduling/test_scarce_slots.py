"""Who starts when slots are scarce: priorities by name, the reserve, and waiting that costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from queuemgr.base.errors import BadInput, ConfigurationError
from queuemgr.flows.flow import HIGH, LOW, NORMAL, PRIORITIES, PRIORITY_NAMES
from queuemgr.flows.outcomes import Done
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue, priority_of
from queuemgr.models import Attempt, Execution, Lease, Limit, State
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from queuemgr.reporting import explain
from queuemgr.scheduling import limit_rows
from queuemgr.scheduling.phase_settings import phase_settings_group
from queuemgr.worker import housekeeping

pytestmark = pytest.mark.django_db(transaction=True)
Played = Callable[..., Any]
Probes = Callable[..., list[Execution]]
SettingsGroup = Callable[..., None]
ANN = Actor("ann", "admin")


def test_high_starts_before_normal_before_low_whatever_was_enqueued_first(
    played: Played, probes: Probes
) -> None:
    """The order of the names is what is promised; numbers and a broker's steps play no part."""
    for name in ("low", "normal", "high"):
        probes(10, priority=PRIORITIES[name], prefix=f"{name}-")
    worker = played(slots=1)
    dispatch()
    order: list[str] = []
    running = worker.begin_all()
    while running:
        (grant,) = running
        order.append(PRIORITY_NAMES[grant.priority])
        running = worker.end(grant) or worker.begin_all()
    assert order == ["high"] * 10 + ["normal"] * 10 + ["low"] * 10


@pytest.mark.parametrize("name", ["urgent", "", "0", "HIGH"])
def test_an_unknown_priority_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(BadInput, match=f"priority {name!r} is not one of high, normal, low"):
        priority_of(name)
    with pytest.raises(CommandError, match=r"high.*normal.*low"):
        call_command("queue", "enqueue", "--flow", "probe", f"--priority={name}")
    assert not Execution.objects.exists()


@pytest.mark.parametrize("rank", [-1, 10, 50])
def test_a_rank_that_is_no_priority_is_refused_and_breaks_no_dispatch(
    rank: int, played: Played, probes: Probes
) -> None:
    """Neither clamped nor stored, where it would stop every dispatch."""
    played(slots=2)
    (execution,) = probes(1)
    with pytest.raises(BadInput, match=f"priority {rank} is not one of"):
        enqueue("probe", "k", priority=rank)
    with pytest.raises(BadInput, match=f"priority {rank} is not one of"):
        executions.set_priority([execution], rank, ANN)
    assert Execution.objects.get().priority == NORMAL
    probes(1, prefix="after-")
    assert Lease.objects.count() == 2


def test_reserved_slots_start_high_priority_at_once_while_low_priority_fills_the_rest(
    played: Played, probes: Probes, configure: SettingsGroup
) -> None:
    """8 slots, 2 reserved, 100 long low items: five high ones never wait for one of them."""
    configure(max_workers=8, high_priority_reserved=2)
    worker = played(slots=8)
    probes(100, priority=LOW, prefix="low-")
    low = worker.begin_all()
    assert len(low) == 6
    probes(5, priority=HIGH, prefix="high-")
    high = worker.begin_all()
    assert [grant.priority for grant in high] == [HIGH, HIGH]
    served = len(high)
    while high:
        next_one = worker.end(high.pop(0))
        assert Lease.objects.filter(priority=LOW).count() == 6, "what is reserved stays so"
        assert all(grant.priority == HIGH for grant in next_one)
        served += len(next_one)
        high += next_one
    assert served == 5
    assert Lease.objects.count() == 6
    assert worker.end(low[0])[0].priority == LOW


def test_waiting_behind_a_cap_of_one_is_no_attempt_and_no_failure(
    played: Played, probes: Probes, configure: SettingsGroup
) -> None:
    """60 items through one slot, looked at again and again while they wait."""
    configure(max_prep=1)
    worker = played(slots=8)
    waiting = probes(60)
    (grant,) = worker.begin_all()
    for number in range(60):
        if number % 20 == 0:
            housekeeping.tick()
            assert Lease.objects.count() == 1
            if number < 59:
                assert "phase:prep 1/1" in explain.reasons().of(Execution.objects.get(pk=waiting[-1].pk))
        handed = worker.end(grant)
        assert len(handed) == (number < 59)
        grant = handed[0] if handed else grant
    assert Execution.objects.filter(state=State.DONE).count() == 60
    assert list(Attempt.objects.values_list("outcome", flat=True)) == ["done"] * 60
    assert Attempt.objects.values("execution").distinct().count() == 60


def test_waiting_for_tomorrows_budget_is_no_attempt_and_says_so(
    played: Played, probes: Probes, configure: SettingsGroup
) -> None:
    """The budget is used up with 50 items left."""
    configure(daily_budget=5)
    worker = played(slots=8)
    probes(55, requests=1)
    for grant in worker.begin_all():
        worker.end(grant)
    for _ in range(5):
        housekeeping.tick()
    left = Execution.objects.waiting()
    assert left.count() == 50
    assert not Lease.objects.exists()
    assert not Attempt.objects.filter(execution__in=left).exists()
    assert not Execution.objects.failed().exists()
    assert "requests 5 of 5 per day spent" in explain.reasons().of(left[0])


def test_a_phase_capped_at_0_has_no_cap_as_its_setting_says(
    played: Played, probes: Probes, configure: SettingsGroup
) -> None:
    """A 0 that closed a phase would leave its work waiting for ever."""
    assert "0: no cap" in str(phase_settings_group().model_fields["max_prep"].description)
    configure(max_prep=0)
    played(slots=3)
    probes(3)
    assert Lease.objects.count() == 3


def test_a_reserve_as_large_as_its_limit_is_refused_at_startup_by_name(configure: SettingsGroup) -> None:
    """Normal work could never fit, and would be reported as waiting for a busy fleet."""
    configure(max_workers=4, high_priority_reserved=4)
    with pytest.raises(ConfigurationError, match=r"SLUICE_HIGH_PRIORITY_RESERVED=4.*SLUICE_MAX_WORKERS=4"):
        limit_rows.sync()
    configure(high_priority_reserved=1)
    assert not Limit.objects.exists()


def test_short_work_goes_to_the_idle_worker_and_none_waits_behind_the_long(
    played: Played, probes: Probes
) -> None:
    """Two workers of one slot; nothing is promised to the one that is busy."""
    busy, idle = played(slots=1, name="busy@test"), played(slots=1, name="idle@test")
    probes(1, prefix="long-")
    (long,) = busy.begin_all()
    probes(10, prefix="short-")
    assert Lease.objects.unstarted().count() == 1, "as many messages as idle slots"
    running, ended = idle.begin_all(), 0
    while running:
        running = idle.end(running[0], Done()) or idle.begin_all()
        ended += 1
        assert Lease.objects.unstarted().count() == 0
    assert ended == 10
    assert Lease.objects.get().pk == long.lease_id
