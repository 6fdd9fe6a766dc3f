"""Starting leases that came as messages: once, however often a message is delivered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection, transaction

from queuemgr.base import scheduler_lock
from queuemgr.lifecycle import anomalies, leases, states
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Lease, State
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
    now = scheduler_lock.database_now()
    unstarted = Lease.objects.unstarted().filter(pk__in=lease_ids)
    if connection.features.has_select_for_update:
        unstarted = unstarted.order_by("pk").select_for_update()  # in the order endings lock them
    found = list(unstarted.values_list("pk", "execution_id", "rated"))
    started = {pk: execution for pk, execution, _ in found}
    anomalies.count(anomalies.MESSAGE_REFUSED, len(lease_ids) - len(started), now)
    if not started:
        return Begun([])
    Lease.objects.filter(pk__in=started).update(
        worker_id=worker_id, started_at=now, expires_at=leases.lease_expiry(now, started=True)
    )
    states.move(started.values(), State.RUNNING)
    wakeup = breakers.advance_clocks([json.loads(debits) for _, _, debits in found if debits], now)
    return Begun(leases.grants_of(list(started)), wakeup)
