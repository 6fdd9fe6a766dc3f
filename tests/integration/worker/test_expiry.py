"""Leases that expire: whose, when, and what is said of it; and what an outage changes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError, connection

from queuemgr.base.config import queue_settings
from queuemgr.base.db_connection import database
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle import states
from queuemgr.lifecycle.lease_locks import HeldLease
from queuemgr.models import Attempt, Execution, Lease, Outcome, PeriodicJob, Worker
from queuemgr.worker import expiry

pytestmark = pytest.mark.django_db(transaction=True)
Played = Callable[..., Any]
Probes = Callable[..., list[Execution]]


def ago(seconds: float) -> datetime:
    return database_now() - timedelta(seconds=seconds)


def last_look(seconds: float) -> None:
    """Have leases been looked at so many seconds ago."""
    PeriodicJob.objects.update_or_create(name=expiry.JOB, defaults={"ran_at": ago(seconds)})


@pytest.fixture
def running(played: Played, probes: Probes) -> Any:
    """A worker with a lease that expired a second ago."""
    worker = played(slots=1)
    probes(1)
    worker.begin_all()
    Lease.objects.update(expires_at=ago(1))
    return worker


def test_a_lease_that_expired_ends_at_the_next_look(running: Any) -> None:
    last_look(1)
    assert len(expiry.look().lost) == 1
    assert Attempt.objects.get().outcome == Outcome.LOST


@pytest.mark.parametrize("away", [20, 3600, 2 * 86_400])
def test_after_an_outage_a_live_worker_gets_one_heartbeat_to_renew_or_finish(
    running: Any, away: float
) -> None:
    """Nobody looked: what finished meanwhile is stored, not run again. Long ones are suspended machines."""
    Worker.objects.update(seen_at=ago(away + 1))
    last_look(away)
    assert expiry.look().lost == []
    lease = Lease.objects.get()
    grace = (lease.expires_at - database_now()).total_seconds()
    assert queue_settings().heartbeat_seconds < grace < queue_settings().heartbeat_seconds + 5
    Lease.objects.update(expires_at=ago(1))
    ((_, cause, _),) = expiry.look().lost
    assert "did not come back after an outage" in cause


def test_after_an_outage_a_worker_that_was_gone_before_it_gets_nothing(running: Any) -> None:
    Worker.objects.update(seen_at=ago(7200))
    last_look(3600)
    assert len(expiry.look().lost) == 1


def test_a_lease_from_before_the_clock_stepped_back_lasts_no_longer_than_others(running: Any) -> None:
    Lease.objects.update(expires_at=ago(-2 * 86_400))
    last_look(-2 * 86_400)
    expiry.look()
    longest = timedelta(seconds=queue_settings().lease_seconds)
    assert Lease.objects.get().expires_at <= database_now() + longest


def test_a_lease_is_looked_at_again_only_after_a_while(running: Any) -> None:
    last_look(0)
    assert expiry.look_if_due() is None
    last_look(expiry.seconds_between_looks(queue_settings()) + 0.5)
    assert expiry.look_if_due()


def held(renewed: float, seen: float) -> HeldLease:
    """A lease renewed, and a worker seen, so many seconds before `NOW`."""
    return HeldLease(
        lease_id=uuid4(), execution_id=1, flow="f", key="k", phase="prep", step="s", priority=1,
        limit_keys="", resources="", cost=0, weight=1, reported_cost=0, worker="w@h",
        worker_seen_at=NOW - timedelta(seconds=seen), cancel_requested_by="", leased_at=NOW,
        renewed_at=NOW - timedelta(seconds=renewed), attempts_counted_since=NOW, payload={}, context={},
    )  # fmt: skip


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("renewed", "seen", "outage", "says"),
    [
        (
            100,
            100,
            None,
            "worker w@h is gone: its last heartbeat was 11:58:20 UTC; last renewed 11:58:20 UTC",
        ),
        (100, 2, None, "worker w@h is alive, but stopped renewing this lease"),
        (100, 2, 50, "worker w@h did not come back after an outage"),
        (100, 100, 200, "worker w@h is gone"),
    ],
)
def test_the_cause_of_a_loss_tells_a_dead_worker_a_frozen_one_and_an_outage_apart(
    renewed: float, seen: float, outage: float | None, says: str
) -> None:
    ended = NOW - timedelta(seconds=outage) if outage is not None else None
    assert expiry.cause_of_loss(held(renewed, seen), now=NOW, outage=ended).startswith(says)


def test_two_that_look_at_once_after_an_outage_give_one_heartbeat(running: Any) -> None:
    """The second must not take the look of the first for a sign that nobody was away."""
    if connection.vendor == "sqlite":
        pytest.skip("its write lock lets one look at a time")
    Worker.objects.update(seen_at=ago(61))
    last_look(60)
    with ThreadPoolExecutor(4) as pool:
        looks = list(pool.map(lambda _: _look_in_a_thread(), range(4)))
    assert [look.lost for look in looks] == [[], [], [], []]


def _look_in_a_thread() -> expiry.Expired:
    with database():
        return expiry.look()


def test_an_execution_that_is_held_without_a_lease_waits_again(probes: Probes, played: Played) -> None:
    played(slots=1)
    probes(1)
    Lease.objects.all().delete()
    assert expiry.requeue_stranded() == 1
    assert Execution.objects.get().state == "waiting"
    assert expiry.requeue_stranded() == 0


def test_a_revocation_that_fails_half_way_leaves_nothing_behind(
    probes: Probes, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    played(slots=1)
    probes(1)
    Lease.objects.update(expires_at=ago(1))

    def away(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("server closed the connection")

    with monkeypatch.context() as patched:
        patched.setattr(states, "move", away)
        with pytest.raises(OperationalError):
            expiry.look()
    assert Lease.objects.unstarted().count() == 1
    expiry.look()
    assert Execution.objects.get().state == "waiting"
