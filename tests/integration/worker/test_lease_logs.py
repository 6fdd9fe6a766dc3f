"""Log lines about leases name the key, the lease, the step and the worker."""

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
    """What housekeeping logs, with the fields that the filter adds."""
    found: list[logging.LogRecord] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    handler = Handler()
    handler.addFilter(AboutStep())
    logger = logging.getLogger("queuemgr.worker.housekeeping")
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)


def test_an_expired_lease_is_logged_with_its_key_step_worker_and_last_renewal(
    played: Callable[..., Any], probes: Callable[..., list[Execution]], records: list[logging.LogRecord]
) -> None:
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()
    Lease.objects.update(expires_at=database_now() - timedelta(seconds=1))
    assert housekeeping.tick()["lost"] == 1
    (record,) = records
    message = record.getMessage()
    assert f"lease {grant.lease_id}: probe/p0 step probe on {worker.row.name}" in message
    assert "last renewed or started" in message and " UTC" in message
    fields = {"key": "p0", "step": "probe", "lease": str(grant.lease_id), "worker": worker.row.name}
    assert fields.items() <= getattr(record, "fields", {}).items()
