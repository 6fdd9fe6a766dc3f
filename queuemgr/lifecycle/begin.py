"""Starting leases that came as messages: once, however often a message is delivered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from queuemgr.base import scheduler_lock
from queuemgr.lifecycle import anomalies, leases, states
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import State
from queuemgr.scheduling import breakers


@dataclass(frozen=True, slots=True)
class Begun:
    """Leases started, and seconds until the next start their rate limits allow."""

    grants: list[Grant]
    next_wakeup: float | None = None


@transaction.atomic
def begin(lease_ids: Sequence[UUID], worker_id: int) -> Begun:
    """Start those of these leases that no worker has started; the others are not ours to run.

    A second delivery finds the row started, and one after `worker.housekeeping.tick` ended an expired
    lease finds no row.
    """
    now = scheduler_lock.end_when_frozen()
    started = leases.start(lease_ids, worker_id, now)
    anomalies.count(anomalies.MESSAGE_REFUSED, len(lease_ids) - len(started), now)
    if not started:
        return Begun([])
    states.move([lease.execution_id for lease in started], State.RUNNING)
    wakeup = breakers.advance_clocks(
        [json.loads(lease.rate_debits) for lease in started if lease.rate_debits], now
    )
    return Begun(leases.grants_of([lease.id for lease in started]), wakeup)
