"""Log lines about leases name the key, the lease, the step and the worker, and say what follows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import Execution, Lease
from queuemgr.worker import housekeeping
from queuemgr.worker.log_format import AboutStep

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    """What is logged of expired and lost leases, with the fields that the filter adds."""
    found: list[logging.LogRecord] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    handler = Handler()
    handler.addFilter(AboutStep())
    loggers = [logging.getLogger(f"queuemgr.worker.{name}") for name in ("expiry", "lost_leases")]
    for logger in loggers:
        logger.addHandler(handler)
    yield found
    for logger in loggers:
        logger.removeHandler(handler)


def expire_all() -> None:
    Lease.objects.update(expires_at=database_now() - timedelta(seconds=1))


def test_an_expired_lease_is_logged_with_its_key_step_worker_and_last_renewal(
    played: Callable[..., Any], probes: Callable[..., list[Execution]], records: list[logging.LogRecord]
) -> None:
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()
    expire_all()
    assert housekeeping.tick()["lost"] == 1
    (record,) = records
    message = record.getMessage()
    assert f"lease {grant.lease_id}: probe/p0 step probe on {worker.row.name}" in message
    assert "is alive, but stopped renewing this lease" in message
    assert "; last renewed " in message
    assert message.endswith(" UTC: requeued, loss 1 of 3")
    fields = {"key": "p0", "step": "probe", "lease": str(grant.lease_id), "worker": worker.row.name}
    assert fields.items() <= getattr(record, "fields", {}).items()


def test_the_line_of_each_expiry_says_whether_the_work_is_requeued_or_failed_as_poison(
    played: Callable[..., Any], probes: Callable[..., list[Execution]], records: list[logging.LogRecord]
) -> None:
    worker = played(slots=1)
    probes(1)
    for _ in range(3):
        worker.begin_all()
        expire_all()
        housekeeping.tick()
    follows = [record.getMessage().rpartition(" UTC: ")[2] for record in records]
    assert follows == ["requeued, loss 1 of 3", "requeued, loss 2 of 3", "failed as poison"]


def test_the_line_of_an_expiry_says_that_a_person_cancelled_the_work(
    played: Callable[..., Any], probes: Callable[..., list[Execution]], records: list[logging.LogRecord]
) -> None:
    worker = played(slots=1)
    probes(1)
    worker.begin_all()
    Lease.objects.update(cancel_requested_by="sam")
    expire_all()
    housekeeping.tick()
    assert [record.getMessage().rpartition(" UTC: ")[2] for record in records] == ["cancelled"]


def test_a_lease_that_expired_before_its_step_started_is_logged_with_its_key_and_step(
    played: Callable[..., Any], probes: Callable[..., list[Execution]], records: list[logging.LogRecord]
) -> None:
    played(slots=1)
    probes(1)
    lease = str(Lease.objects.get().pk)
    expire_all()
    assert housekeeping.tick()["lost"] == 0
    (record,) = records
    assert record.getMessage() == (
        f"expired lease {lease}: probe/p0 step probe on no worker, none started it in time: requeued"
    )
    fields = {"key": "p0", "step": "probe", "lease": lease, "worker": "none"}
    assert fields.items() <= getattr(record, "fields", {}).items()
