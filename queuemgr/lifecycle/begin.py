"""Starting leases that came as messages: once, however often a message is delivered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from queuemgr.base import scheduler_lock, transaction
from queuemgr.base.rate import LEAD, Rate
from queuemgr.lifecycle import anomalies, execution_signals, leases, states
from queuemgr.lifecycle.lease_locks import StartedLease
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import State
from queuemgr.scheduling import breakers
from queuemgr.scheduling.decision_input import rates_of
from queuemgr.scheduling.limit_rules import rules_of


@dataclass(frozen=True, slots=True)
class Begun:
    """Leases started, and in how many seconds a decision may grant the next start under their rates."""

    grants: list[Grant]
    next_wakeup: float | None = None


@transaction.atomic
def begin(lease_ids: Sequence[UUID], worker_id: int, row_wait_ms: int = scheduler_lock.ROW_WAIT_MS) -> Begun:
    """Start those of these leases that no worker has started; the others are not ours to run. One under a
    rate starts when it conforms, and `not_before` says how long its slot waits.

    A second delivery finds the row started, and one after `worker.expiry.look` ended an expired
    lease finds no row. Raises `RowsBusy`, with nothing begun, where somebody has locked one of them, and
    waits `row_wait_ms` at most for what else somebody holds, as the rows of limits.
    """
    now = scheduler_lock.end_when_frozen(row_wait_ms=row_wait_ms)
    started = leases.start(lease_ids, worker_id, now)
    anomalies.count(anomalies.MESSAGE_REFUSED, len(lease_ids) - len(started), now)
    if not started:
        return Begun([])
    states.move([lease.execution_id for lease in started], State.RUNNING)
    rates = _rates_of(started, now)
    booked = dict(zip((lease.id for lease in started), breakers.book_starts(rates), strict=True))
    leases.set_starts({pk: booking.at for pk, booking in booked.items() if booking.at})
    grants = leases.grants_of([lease.id for lease in started])
    execution_signals.started(grants)
    soonest = min((rate.interval for each in rates for rate in each.values()), default=None)
    return Begun(
        [grant._replace(not_before=booked[grant.lease_id].not_before) for grant in grants],
        max(0.0, soonest - LEAD) if soonest is not None else None,
    )


def _rates_of(started: Sequence[StartedLease], now: datetime) -> list[Mapping[str, Rate]]:
    """The rates that each of these starts advances, as they are now, if they still apply."""
    debits = [json.loads(lease.rate_debits) if lease.rate_debits else {} for lease in started]
    names = {name for each in debits for name in each}
    rules = rules_of(names, now) if names else {}
    return [rates_of(rules, each) for each in debits]
