"""Starting leases that came as messages: once, however often a message is delivered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from queuemgr.base import scheduler_lock, transaction
from queuemgr.base.drawn import Drawn
from queuemgr.base.rate import LEAD
from queuemgr.lifecycle import anomalies, execution_signals, leases
from queuemgr.lifecycle.lease_locks import StartedLease
from queuemgr.lifecycle.leases import Grant
from queuemgr.scheduling import rate_clocks
from queuemgr.scheduling.decision_input import debits_of
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
    started = leases.lock_unstarted(lease_ids)
    anomalies.count(anomalies.MESSAGE_REFUSED, len(lease_ids) - len(started), now)
    if not started:
        return Begun([])
    debits = _debits_of(started, now)
    booked = dict(zip((lease.id for lease in started), rate_clocks.book_starts(debits), strict=True))
    grants = leases.start({lease.id: lease.execution_id for lease in started}, booked, worker_id, now)
    execution_signals.started(grants)
    soonest = min((debit.interval for each in debits for debit in each.values()), default=None)
    return Begun(
        [grant._replace(not_before=booked[grant.lease_id].not_before) for grant in grants],
        max(0.0, soonest - LEAD) if soonest is not None else None,
    )


def _debits_of(started: Sequence[StartedLease], now: datetime) -> list[dict[str, Drawn]]:
    """What each of these starts takes of clocks, as the rules are now, of those that were counted when it was
    granted."""
    counted = [json.loads(lease.rate_debits) if lease.rate_debits else {} for lease in started]
    names = {clock.partition(" ")[0] for each in counted for clock in each}
    rules = rules_of(names, now) if names else {}
    return [
        {
            clock: debit
            for clock, debit in debits_of(rules, {c.partition(" ")[0] for c in each}, lease.amounts).items()
            if clock in each
        }
        for lease, each in zip(started, counted, strict=True)
    ]
