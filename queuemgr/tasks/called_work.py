"""Work that is called rather than leased: by a test, or in Celery's eager mode. No row is read or written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from queuemgr.base.db_connection import left_to_the_caller
from queuemgr.base.meters import Amounts
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.flow import NORMAL
from queuemgr.flows.outcomes import Result
from queuemgr.lifecycle.attempts import AttemptsSoFar, FailedAttempt
from queuemgr.lifecycle.leases import Grant
from queuemgr.steptools.rate_limit_headers import Remaining
from queuemgr.worker.application_code import outcome_of
from queuemgr.worker.current_work import doing
from queuemgr.worker.work import Work


@dataclass(frozen=True)
class CalledWork(Work):
    """The work of a step that is called; `failures` are the attempts that failed before."""

    failures: tuple[FailedAttempt, ...] = ()
    last_attempt: bool = False
    recorded: list[int] = field(default_factory=list)
    """The requests it recorded, in order."""
    spent: list[Amounts] = field(default_factory=list)
    """The amounts of other meters it recorded, in order, in their smallest parts."""
    observed: list[Mapping[str, Remaining]] = field(default_factory=list)
    """What services said is left, in order, by meter."""

    def attempts_so_far(self) -> AttemptsSoFar:
        return AttemptsSoFar("test", list(self.failures))

    def is_last_attempt(self, kind: str, failures: int) -> bool:
        return self.last_attempt

    def record_requests(self, requests: int = 1) -> None:
        self.recorded.append(requests)

    def record_usage(self, spent: Amounts) -> None:
        self.spent.append(spent)

    def tell(self, said: Mapping[str, Remaining], sent: float, limit: str) -> None:
        self.observed.append(said)

    def raise_if_lost(self) -> None:
        self.signal.raise_if_aborted()


def call_step(
    task: Any, payload: Mapping[str, Any] | None = None, *, context: Mapping[str, Any] | None = None,
    key: str = "test", work: CalledWork | None = None,
) -> Result:  # fmt: skip
    """Call the Celery task of a step with this payload and context; returns its outcome, whatever it raises.

    A `work` of `called_work` says which attempts failed before, and what was recorded.
    """
    made = work or called_work(payload, context=context, key=key)
    with doing(made), left_to_the_caller():
        return outcome_of(lambda: task.perform(made), made.signal)


@contextmanager
def remembering(task: Any, raised: list[BaseException]) -> Iterator[None]:
    """A queued task makes an outcome of what its function raises: add that to `raised`, too."""
    call = getattr(task, "call", None)
    if call is None:
        yield
        return

    def call_and_remember(*arguments: Any) -> Any:
        try:
            return call(*arguments)
        except BaseException as error:
            raised.append(error)
            raise

    task.call = call_and_remember
    try:
        yield
    finally:
        del task.call


def called_work(
    payload: Mapping[str, Any] | None = None, *, context: Mapping[str, Any] | None = None, key: str = "test",
    failures: tuple[FailedAttempt, ...] = (), last_attempt: bool = False,
) -> CalledWork:  # fmt: skip
    """Work to call a step with."""
    grant = Grant(
        uuid4(), 0, "test", key, "test", "test", NORMAL, "", dict(payload or {}), dict(context or {})
    )
    return CalledWork(grant, AbortSignal(), failures, last_attempt)
