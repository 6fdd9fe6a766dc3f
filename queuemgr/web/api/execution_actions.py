"""What a person may do with an execution: the verbs of `executions`, one route each."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Field

from queuemgr.lifecycle.enqueue import priority_of
from queuemgr.models import Execution
from queuemgr.operations import executions
from queuemgr.web.api.auth import by, caller_of, needs
from queuemgr.web.api.enqueue import from_afar
from queuemgr.web.api.executions import one, router
from queuemgr.web.api.idempotency import once
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import SAID_NOTHING, Changed, Id, Moment, PriorityName, Reasoned


class Retry(Reasoned):
    """From the step it stopped at, or from the start; with another payload where one is given."""

    from_start: bool = False
    payload: Annotated[
        dict[str, Any] | None,
        Field(description="Takes its payload's place; scope payload, permission edit_payload."),
    ] = None


JUST_RETRY = Retry()


class NewPriority(Reasoned):
    priority: PriorityName


class NewTime(Reasoned):
    run_after: Moment = Field(description="It starts no earlier; a time that has passed: at once.")


def changed(execution: Execution, count: int, remedy: str) -> Changed:
    """The answer; raises `Problem` 409 where its state did not allow it."""
    if not count:
        now = Execution.objects.filter(pk=execution.pk).values_list("state", flat=True).first()
        raise Problem("conflict", f"execution {execution.pk} is {now}: {remedy}", state=now)
    return Changed(changed=count)


@router.post("/executions/{int:pk}/retry", response=Changed, **needs("operate", "retry_execution"))
@once
def retry_execution(request: HttpRequest, pk: Id, given: Retry = JUST_RETRY) -> Changed:
    """Let a failed, cancelled or skipped execution go on."""
    execution, why = one(pk), by(request, given.reason)
    if given.payload is not None:
        caller_of(request).must("payload", "edit_payload")
        count = executions.retry_with_payload(
            execution, from_afar(execution.flow, given.payload), why, from_start=given.from_start
        )
    elif given.from_start:
        count = executions.retry_from_start([execution], why)
    else:
        count = executions.retry([execution], why)
    return changed(execution, count, "only what failed, was cancelled or skipped can be retried")


@router.post(
    "/executions/{int:pk}/cancel", response=Changed, **needs("operate", "cancel_execution")
)
@once
def cancel_execution(request: HttpRequest, pk: Id, given: Reasoned = SAID_NOTHING) -> Changed:
    """Cancel it at once when it waits; when it runs, ask its worker to stop, which takes seconds."""
    execution = one(pk)
    count = executions.cancel([execution], by(request, given.reason))
    return changed(execution, count, "it has ended, or was asked to stop before")


@router.post("/executions/{int:pk}/skip", response=Changed, **needs("operate", "skip_execution"))
@once
def skip_execution(request: HttpRequest, pk: Id, given: Reasoned = SAID_NOTHING) -> Changed:
    """Leave it out for good: it waits, or failed and nobody wants it any more."""
    execution = one(pk)
    count = executions.skip([execution], by(request, given.reason))
    return changed(execution, count, "only what waits or failed can be skipped")


@router.post(
    "/executions/{int:pk}/priority", response=Changed, **needs("operate", "prioritise_execution")
)
@once
def prioritise_execution(request: HttpRequest, pk: Id, given: NewPriority) -> Changed:
    """Raise or lower its priority; 0 changed when it has that priority already."""
    rank = priority_of(given.priority)
    return Changed(changed=executions.set_priority([one(pk)], rank, by(request, given.reason)))


@router.post(
    "/executions/{int:pk}/run-after", response=Changed, **needs("operate", "prioritise_execution")
)
@once
def put_off_execution(request: HttpRequest, pk: Id, given: NewTime) -> Changed:
    """Have it start no earlier than a time; 0 changed when it does not wait, or is due already."""
    moved = executions.set_run_after([one(pk)], given.run_after, by(request, given.reason))
    return Changed(changed=moved)
