"""Sends the signals of executions: in the transaction that changes them, to be received after its commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from django.dispatch import Signal

from queuemgr import signals
from queuemgr.base.signal_delivery import send_after_commit
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.outcome_rules import OutcomeEffects
from queuemgr.models import UNBOUNDED, Execution, Outcome, State
from queuemgr.signals import ExecutionEvent


def enqueued(rows: Iterable[Execution], new_keys: Collection[str]) -> None:
    """Of those of these rows that were inserted."""
    send_after_commit(signals.execution_enqueued, lambda: _of_new(rows, set(new_keys)))


def _of_new(rows: Iterable[Execution], new_keys: set[str]) -> Iterator[ExecutionEvent]:
    return (ExecutionEvent(row.flow, row.key, row.phase, row.step) for row in rows if row.key in new_keys)


def started(grants: Sequence[Grant]) -> None:
    events = (ExecutionEvent(grant.flow, grant.key, grant.phase, grant.step) for grant in grants)
    send_after_commit(signals.execution_started, lambda: events)


def ended(effects: Sequence[OutcomeEffects]) -> None:
    """Of leases that ended: several signals for one that was lost for the last time."""
    for signal, applies in _OF_ENDS.items():
        send_after_commit(signal, partial(map, _of_end, filter(applies, effects)))


_OF_ENDS: Mapping[Signal, Callable[[OutcomeEffects], bool]] = {
    signals.execution_lost: lambda e: e.attempt.outcome == Outcome.LOST,
    signals.execution_finished: lambda e: e.to in (State.DONE, State.SKIPPED),
    signals.execution_failed: lambda e: e.to == State.FAILED,
    signals.execution_retried: lambda e: e.attempt.outcome == Outcome.RETRIED,
    signals.execution_cancelled: lambda e: e.to == State.CANCELLED,
}


def _of_end(e: OutcomeEffects) -> ExecutionEvent:
    lease, attempt = e.lease, e.attempt
    return ExecutionEvent(
        lease.flow, lease.key, lease.phase, lease.step, lease.worker, attempt.error_kind,
        attempt.error_message, e.changes.get("run_after"),
    )  # fmt: skip


def moved(signal: Signal, ids: Collection[int]) -> None:
    """Of executions that had no lease; call it after they were moved."""
    send_after_commit(signal, lambda: _of_rows(ids))


def _of_rows(ids: Collection[int]) -> Iterator[ExecutionEvent]:
    for row in Execution.objects.filter(pk__in=ids).defer(*UNBOUNDED).order_by("pk"):
        yield ExecutionEvent(
            row.flow, row.key, row.phase, row.step, error_kind=row.error_kind,
            error_message=row.error_message,
        )  # fmt: skip
