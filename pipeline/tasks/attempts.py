"""The attempts of a step so far, as the queue records them."""

from __future__ import annotations

from typing import NamedTuple

from queuemgr import Work
from queuemgr.extend.models import Attempt, Execution, Outcome
from queuemgr.scheduling import retry_policies


class FailedAttempt(NamedTuple):
    kind: str
    message: str


class AttemptsSoFar(NamedTuple):
    """`round`: names the attempts since a person last had the execution retried. `failures`: those of
    them that failed at this step."""

    round: str
    failures: list[FailedAttempt]


def attempts_so_far(work: Work) -> AttemptsSoFar:
    """Read them from the database; this run is not among them."""
    with work.database():
        execution = Execution.objects.only("attempts_counted_since").get(pk=work.grant.execution_id)
        failed = Attempt.objects.filter(
            execution=execution,
            phase=work.grant.phase,
            step=work.grant.step,
            outcome__in=(Outcome.RETRIED, Outcome.FAILED),
            leased_at__gte=execution.attempts_counted_since,
        )
        rows = failed.order_by("pk").values_list("error_kind", "error_message")
        return AttemptsSoFar(
            execution.attempts_counted_since.isoformat(), [FailedAttempt(*row) for row in rows]
        )


def is_last_attempt(work: Work, kind: str, failures: int) -> bool:
    """Whether a failure of this kind, after `failures` earlier ones, will not be retried."""
    with work.database():
        allowed = retry_policies.policy_for(kind, work.grant.phase).max_attempts
    return failures + 1 >= allowed
