"""Whether the database lets a worker work: what one does is done, in a transaction that is rolled back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from threading import Timer
from uuid import uuid4

from queuemgr.base import scheduler_lock, sql, transaction
from queuemgr.base.unreachable import connect_directly
from queuemgr.flows.flow import NORMAL, CheckResult
from queuemgr.lifecycle import anomalies, leases, states
from queuemgr.lifecycle.leases import AttemptEnd, LeaseRow
from queuemgr.models import Execution, Outcome, State
from queuemgr.scheduling import breakers, limit_usage, wakeups
from queuemgr.scheduling.limit_usage import PeriodCharge
from queuemgr.scheduling.rate_clocks import NO_BOOKING

NAME = "doctor"

PAUSE_SECONDS = 0.1
"""How long a transaction may be quiet, and a statement wait, on a machine that is busy. A database that ends
either sooner works only now and then."""

REHEARSED_LOCK = 0x51_01_CE_03


def work() -> Iterator[CheckResult]:
    """Enqueue, lease, start and end an execution; raises the database's error where that is refused."""
    with transaction.atomic():
        now = scheduler_lock.end_when_frozen(row_wait_ms=scheduler_lock.ROW_WAIT_MS)
        _one_execution(now)
        transaction.set_rollback(True)
    _pause()
    yield CheckResult("good", "the database takes what a worker writes")


def _one_execution(now: datetime) -> None:
    """The rows of one execution. Its worker and route do not exist, which only a commit would find."""
    key, lease_id = uuid4().hex, uuid4()
    states.insert_new([Execution(flow=NAME, key=key, phase=NAME, step=NAME, run_after=now, route_id=0)])
    pk = Execution.objects.get(flow=NAME, key=key).pk
    leases.insert([
        LeaseRow(
            id=lease_id, execution_id=pk, phase=NAME, step=NAME, priority=NORMAL, limit_keys="",
            due_at=now, route_id=0, resources="", cost=0, weight=1, retrying=False, rate_debits="",
            worker_id=None, leased_at=now, started_at=None, expires_at=now,
        )
    ])  # fmt: skip
    states.move([pk], State.LEASED)
    leases.start({lease_id: pk}, {lease_id: NO_BOOKING}, 0, now)
    leases.record_attempts({lease_id: AttemptEnd(Outcome.DONE, 0)}, now)
    states.move([pk], State.DONE, finished_at=now, route_id=None)
    wakeups.post(limits=[NAME])
    limit_usage.charge_periods({PeriodCharge(NAME, NAME, now): 1})
    breakers.open_breaker(NAME, now, NAME)
    anomalies.count(anomalies.MESSAGE_REFUSED, 1, now)


def _pause() -> None:
    """Be quiet in a transaction for a moment; then, outside of it, wait for a lock that another session
    holds: a pooler may have one connection only."""
    if not scheduler_lock.has_sessions():
        return
    with transaction.atomic():
        sql.value("SELECT 1")
        time.sleep(PAUSE_SECONDS)
        sql.value("SELECT 1")
    with closing(connect_directly()) as other:
        other.execute("BEGIN")
        other.execute("SELECT pg_advisory_xact_lock(%s::bigint)", [REHEARSED_LOCK])
        release = Timer(PAUSE_SECONDS, other.execute, ["COMMIT"])
        release.start()
        try:
            sql.value("SELECT pg_advisory_xact_lock(%s::bigint)", [REHEARSED_LOCK])
        finally:
            release.join()
