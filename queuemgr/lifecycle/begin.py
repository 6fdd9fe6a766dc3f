"""Beginning a lease that came as a message: once, however often the message is delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection, transaction

from queuemgr.base import scheduler_lock
from queuemgr.lifecycle import anomalies, states
from queuemgr.lifecycle import leases as grant
from queuemgr.models import Lease, State
from queuemgr.scheduling import breakers


@dataclass(frozen=True, slots=True)
class Begun:
    """What began, and in how many seconds a rate it moved on may let another through."""

    grants: list[grant.Grant]
    next_wakeup: float | None = None


@transaction.atomic
def begin(lease_ids: Sequence[UUID], worker_id: int) -> Begun:
    """Begin those of these leases that still wait for a worker; the others are not ours to run.

    A second delivery, or one that comes after the lease ran out, finds no unstarted row.
    """
    now = scheduler_lock.database_now()
    unstarted = Lease.objects.unstarted().filter(pk__in=lease_ids)
    if connection.features.has_select_for_update:
        unstarted = unstarted.order_by("pk").select_for_update()  # as endings take them
    found = list(unstarted.values_list("pk", "execution_id", "rated"))
    leases = {pk: execution for pk, execution, _ in found}
    anomalies.count(anomalies.MESSAGE_REFUSED, len(lease_ids) - len(leases), now)
    if not leases:
        return Begun([])
    Lease.objects.filter(pk__in=leases).update(
        worker_id=worker_id, started_at=now, expires_at=grant.lease_expiry(now, started=True)
    )
    states.move(leases.values(), State.RUNNING)
    again = breakers.advance_clocks_of_begun((note for _, _, note in found if note), now)
    return Begun(grant.of_leases(list(leases)), again)
