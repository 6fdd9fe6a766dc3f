"""Which attempts of a step count against its retry policy, and what they came to."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from django.db.models import QuerySet

from queuemgr.lifecycle.leases import Grant, HeldLease
from queuemgr.models import Attempt, Execution, Outcome
from queuemgr.scheduling import retry_policies


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
