"""Says that leases were lost: a log line with key, step, worker and cause, and an event for monitors."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from queuemgr.lifecycle import log_context, task_events
from queuemgr.lifecycle.finish import LostLease

logger = logging.getLogger(__name__)


def report(lost: Sequence[LostLease]) -> None:
    for lease, cause, follows in lost:
        with log_context.about(lease, lease.worker):
            logger.warning("lost %s: %s: %s", lease, cause, follows)
    if lost:
        task_events.connection_lost([each.lease for each in lost])
