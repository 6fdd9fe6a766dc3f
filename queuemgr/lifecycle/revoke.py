"""Withdrawing leases that no worker has started."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from queuemgr.lifecycle import leases, states
from queuemgr.models import State
from queuemgr.scheduling import wakeups


def revoke_unstarted(lease_ids: Sequence[UUID]) -> int:
    """Withdraw those that are not started: their executions wait again, and no attempt is recorded."""
    revoked = leases.delete_unstarted(lease_ids) if lease_ids else []
    states.move([lease.execution_id for lease in revoked], State.WAITING)
    freed = (
        wakeups.freed_by(lease.phase, lease.limit_keys, lease.tokens, refunded=lease.cost > 0)
        for lease in revoked
    )
    wakeups.post({lease.route_id for lease in revoked}, set[str]().union(*freed))
    return len(revoked)
