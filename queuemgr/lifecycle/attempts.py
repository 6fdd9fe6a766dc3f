"""Which attempts of a step count against its retry policy, and what they came to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from queuemgr.base import sql, sql_lists
from queuemgr.flows.outcomes import Failed, Lost, Result
from queuemgr.flows.retry_policy import MAX_LOSSES, Policy
from queuemgr.lifecycle.lease_locks import HeldLease
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Attempt, Execution, Outcome
from queuemgr.scheduling import retry_policies
from queuemgr.scheduling.retry_policies import PolicyTable


class FailedAttempt(NamedTuple):
    """An attempt that failed: its kind of error, and the message."""

    kind: str
    message: str


class AttemptsSoFar(NamedTuple):
    """The attempts of a step that count. `round` names the time they are counted from: when the
    execution was enqueued, or last retried by a person. `failures` are those that failed, oldest first."""

    round: str
    failures: list[FailedAttempt]


def counted(lease: Grant | HeldLease, since: datetime, *outcomes: Outcome) -> QuerySet[Attempt]:
    """Attempts of this lease's step leased since a time that ended in one of these outcomes."""
    return Attempt.objects.filter(
        execution_id=lease.execution_id, phase=lease.phase, step=lease.step, outcome__in=outcomes,
        leased_at__gte=since,
    )  # fmt: skip


def so_far(grant: Grant) -> AttemptsSoFar:
    """The attempts of this grant's step that ended before it."""
    known = Execution.objects.values_list("attempts_counted_since", flat=True)
    since = known.get(pk=grant.execution_id)
    failed = counted(grant, since, Outcome.RETRIED, Outcome.FAILED)
    rows = failed.order_by("pk").values_list("error_kind", "error_message")
    return AttemptsSoFar(since.isoformat(), [FailedAttempt(*row) for row in rows])


def is_last(grant: Grant, kind: str, failures: int) -> bool:
    """Whether a failure of this kind, after `failures` earlier ones, will not be retried."""
    return failures + 1 >= retry_policies.policy_for(kind, grant.phase).max_attempts


class Losses(NamedTuple):
    """How often a step was lost with its worker, and whether another execution ran beside it every time,
    which may be the one that kills workers."""

    number: int = 0
    had_neighbours: bool = False


@dataclass(frozen=True, slots=True)
class History:
    """What decides how leases that end now continue: their steps' attempts so far, and the policies."""

    failed: Mapping[UUID, int]
    lost: Mapping[UUID, Losses]
    policies: PolicyTable

    def failures(self, lease_id: UUID) -> int:
        return self.failed.get(lease_id, 0)

    def losses(self, lease_id: UUID) -> Losses:
        return self.lost.get(lease_id, Losses())

    def policy(self, kind: str, phase: str) -> Policy:
        return self.policies.policy_for(kind, phase)


def history_of(leases: Sequence[HeldLease], results: Mapping[UUID, Result]) -> History:
    """Read it for all of these, whose rows are locked and still there, in a few statements."""
    failed = [lease.lease_id for lease in leases if isinstance(results[lease.lease_id], Failed)]
    lost = [lease for lease in leases if isinstance(results[lease.lease_id], Lost)]
    kinds = {result.kind for result in results.values() if isinstance(result, Failed)}
    return History(
        _counts(failed, Outcome.RETRIED, Outcome.FAILED), _losses(lost), retry_policies.table_of(kinds)
    )


class _Count(NamedTuple):
    lease_id: UUID
    attempts: int


_COUNTS = """
    SELECT l.id, COUNT(*)
      FROM queuemgr_lease l
      JOIN queuemgr_execution e ON e.id = l.execution_id
      JOIN queuemgr_attempt a ON a.execution_id = l.execution_id AND a.phase = l.phase AND a.step = l.step
     WHERE l.id {ids} AND a.leased_at >= e.attempts_counted_since AND a.outcome IN ({outcomes})
     GROUP BY l.id
"""


def _counts(lease_ids: Collection[UUID], *outcomes: Outcome) -> dict[UUID, int]:
    if not lease_ids:
        return {}
    ids = sql_lists.among("uuid", lease_ids)
    statement = _COUNTS.format(ids=ids.text, outcomes=sql.marks(len(outcomes)))
    rows = sql.rows(_Count, statement, [*ids.values, *(outcome.value for outcome in outcomes)])
    return {row.lease_id: row.attempts for row in rows}


def _losses(leases: Collection[HeldLease]) -> dict[UUID, Losses]:
    counts = _counts([lease.lease_id for lease in leases], Outcome.LOST)
    return {
        lease.lease_id: Losses(number, number + 1 >= MAX_LOSSES and _had_neighbours(lease))
        for lease in leases
        if (number := counts.get(lease.lease_id, 0))
    }


def _had_neighbours(lease: HeldLease) -> bool:
    """True if the same other execution was running on the worker, and lost, every time this one was.

    Leases of one dead worker that were renewed at different times expire at different ticks, so the
    times they ran are compared, not the moments they were found lost.
    """
    suspects: set[int] | None = None
    for loss in counted(lease, lease.attempts_counted_since, Outcome.LOST):
        beside = Attempt.objects.filter(
            worker=loss.worker,
            outcome=Outcome.LOST,
            started_at__lt=loss.ended_at,
            ended_at__gt=loss.started_at,
        ).exclude(execution_id=loss.execution_id)
        there = set(beside.values_list("execution_id", flat=True))
        suspects = there if suspects is None else suspects & there
    return bool(suspects)
