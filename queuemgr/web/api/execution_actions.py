"""Actions on one execution, a route each."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Field

from queuemgr.base.errors import CannotUndo
from queuemgr.base.redaction import without_secrets_in
from queuemgr.flows import payload_validation
from queuemgr.lifecycle.enqueue import priority_of
from queuemgr.models import Execution
from queuemgr.operations import bulk, executions, undo
from queuemgr.operations.bulk.actions import ACTIONS
from queuemgr.web.api.auth import actor_of, caller_of, requires
from queuemgr.web.api.executions import get_execution, router
from queuemgr.web.api.idempotency import idempotent
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import NO_REASON, Changed, Id, PriorityName, Timestamp, WithReason
from queuemgr.web.api.undo import undo_by


class Retry(WithReason):
    """From the step it stopped at, or from the start; with another payload if one is given."""

    from_start: bool = False
    payload: Annotated[
        dict[str, Any] | None,
        Field(
            description="Replaces its payload, but for `***` left where an answer had it; needs scope "
            "payload, permission edit_payload."
        ),
    ] = None


PLAIN_RETRY = Retry()


class PriorityInput(WithReason):
    priority: PriorityName


class RescheduleInput(WithReason):
    run_after: Timestamp = Field(description="It starts no earlier; a past time: as soon as possible.")


def _unmasked(request: HttpRequest, payload: dict[str, Any], execution: Execution) -> dict[str, Any]:
    """The payload a caller sends back after editing what they were answered, which has `***` for secrets."""
    shown = without_secrets_in(execution.payload) if caller_of(request).sees_payloads else execution.payload
    if shown == execution.payload:
        return payload
    edited = payload_validation.validate(payload)
    return dict(payload_validation.restore_masked(edited, execution.payload, without_secrets_in))


def changed(execution: Execution, count: int, rule: str) -> Changed:
    """The response; raises `Problem` 409 if its state did not allow the action."""
    if not count:
        now = Execution.objects.filter(pk=execution.pk).values_list("state", flat=True).first()
        raise Problem("conflict", f"execution {execution.pk} is {now}: {rule}", state=now)
    return Changed(changed=count)


@router.post("/executions/{int:pk}/retry", response=Changed, **requires("operate", "retry_execution"))
@idempotent
def retry_execution(request: HttpRequest, pk: Id, given: Retry = PLAIN_RETRY) -> Changed:
    """Retry a failed, cancelled or skipped execution."""
    execution, actor = get_execution(pk), actor_of(request, given.reason)
    if given.from_start:
        bulk.check_reason(ACTIONS["retry_from_start"], actor.reason)
    if given.payload is not None:
        caller_of(request).require("payload", "edit_payload")
        payload = _unmasked(request, given.payload, execution)
        count = executions.retry_with_payload(execution, payload, actor, from_start=given.from_start)
    else:
        retry = executions.retry_from_start if given.from_start else executions.retry
        count = retry([execution], actor)
    return changed(execution, count, "only failed, cancelled and skipped executions can be retried")


@router.post("/executions/{int:pk}/cancel", response=Changed, **requires("operate", "cancel_execution"))
@idempotent
def cancel_execution(request: HttpRequest, pk: Id, given: WithReason = NO_REASON) -> Changed:
    """Cancel it at once if it waits; if it runs, ask its worker to stop, which takes seconds."""
    execution = get_execution(pk)
    actor = actor_of(request, given.reason)
    bulk.check_reason(ACTIONS["cancel"], actor.reason)
    count = executions.cancel([execution], actor)
    return changed(execution, count, "it has ended, or is being cancelled already")


@router.post("/executions/{int:pk}/skip", response=Changed, **requires("operate", "skip_execution"))
@idempotent
def skip_execution(request: HttpRequest, pk: Id, given: WithReason = NO_REASON) -> Changed:
    """Skip it if it waits or failed: it ends without being done."""
    execution = get_execution(pk)
    actor = actor_of(request, given.reason)
    bulk.check_reason(ACTIONS["skip"], actor.reason)
    count = executions.skip([execution], actor)
    return changed(execution, count, "only waiting and failed executions can be skipped")


@router.post("/executions/{int:pk}/undo", response=Changed, **requires("operate", "undo_auditentry"))
@idempotent
def undo_execution_change(request: HttpRequest, pk: Id, given: WithReason = NO_REASON) -> Changed:
    """Undo its last cancellation or change of priority, if it has not changed since. What had started when it
    was cancelled is not put back: retry it."""
    try:
        change = undo.last_undoable(get_execution(pk))
    except CannotUndo as error:
        raise Problem("conflict", str(error)) from None
    undo_by(request, change, given.reason)
    return Changed(changed=1)


@router.post("/executions/{int:pk}/priority", response=Changed, **requires("operate", "prioritise_execution"))
@idempotent
def prioritise_execution(request: HttpRequest, pk: Id, given: PriorityInput) -> Changed:
    """Set its priority; 0 changed if it is done or has that priority already."""
    execution, actor = get_execution(pk), actor_of(request, given.reason)
    return Changed(changed=executions.set_priority([execution], priority_of(given.priority), actor))


@router.post(
    "/executions/{int:pk}/reschedule", response=Changed, **requires("operate", "prioritise_execution")
)
@idempotent
def reschedule_execution(request: HttpRequest, pk: Id, given: RescheduleInput) -> Changed:
    """Start it no earlier than a time; 0 changed if it is not waiting, or is due already."""
    moved = executions.set_run_after([get_execution(pk)], given.run_after, actor_of(request, given.reason))
    return Changed(changed=moved)
