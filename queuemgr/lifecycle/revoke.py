"""Taking back what was given out and not begun."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from queuemgr.base import sql
from queuemgr.lifecycle import states
from queuemgr.models import State
from queuemgr.scheduling import wakeups


def revoke_unstarted(lease_ids: Sequence[UUID]) -> int:
    """Withdraw leases nobody began: their executions wait again, and no attempt is recorded."""
    if not lease_ids:
        return 0
    withdrawn = sql.rows(
        f"DELETE FROM queuemgr_lease WHERE id IN ({sql.marks(len(lease_ids))}) "
        "AND started_at IS NULL RETURNING execution_id, route_id, phase, limit_keys, tokens, cost",
        lease_ids,
    )
    states.move([row[0] for row in withdrawn], State.WAITING)
    freed = (wakeups.freed_by(*names, refunded=cost > 0) for _, _, *names, cost in withdrawn)
    wakeups.post({row[1] for row in withdrawn}, set[str]().union(*freed))
    return len(withdrawn)
