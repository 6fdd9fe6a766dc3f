"""Beginning a lease that came as a message: once, however often the message is delivered."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db import connection, transaction

from queuemgr import fleet_lock, grant, states
from queuemgr.models import Lease, State


@transaction.atomic
def begin(lease_ids: Sequence[UUID], worker_id: int) -> list[grant.Grant]:
    """Begin those of these leases that still wait for a worker; the others are not ours to run.

    A second delivery, or one that comes after the lease ran out, finds no unstarted row.
    """
    now = fleet_lock.database_now()
    unstarted = Lease.objects.unstarted().filter(pk__in=lease_ids)
    if connection.features.has_select_for_update:
        unstarted = unstarted.select_for_update()
    leases = dict(unstarted.values_list("pk", "execution_id"))
    if not leases:
        return []
    Lease.objects.filter(pk__in=leases).update(
        worker_id=worker_id, started_at=now, expires_at=grant.expiry(now, started=True)
    )
    states.move(leases.values(), State.RUNNING)
    return grant.of_leases(list(leases))
