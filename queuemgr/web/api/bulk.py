"""Bulk actions: preview, create, start, inspect, stop and resume them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Field, Router, Schema, Status

from queuemgr.models import ActionState, AuditEntry, BulkAction
from queuemgr.operations import bulk
from queuemgr.operations.bulk.actions import ACTIONS, action_named
from queuemgr.web.api import schemas
from queuemgr.web.api.auth import APP, actor_of, caller_of, requires
from queuemgr.web.api.executions import ExecutionFilter
from queuemgr.web.api.idempotency import idempotent
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import NO_REASON, WithReason
from queuemgr.web.api.undo import undo_by

router = Router(tags=["bulk actions"])


class Arguments(schemas.Input):
    """The arguments of the action."""

    priority: schemas.PriorityName | None = None
    run_after: schemas.Timestamp | None = None


class BulkRequest(WithReason):
    """An action on every execution that matches; `per_minute` 0: unlimited."""

    verb: Literal[tuple(ACTIONS)]  # type: ignore[valid-type]  # made of the actions there are
    filters: ExecutionFilter = ExecutionFilter()
    arguments: Arguments = Arguments()
    per_minute: schemas.PositiveInteger | None = None
    up_to: schemas.IdNumber | None = Field(
        None, description="The highest id it may change; null: the highest that exists now."
    )

    def as_request(self) -> bulk.BulkRequest:
        return bulk.BulkRequest(
            self.verb,
            self.filters.model_dump(mode="json", exclude_none=True),
            self.arguments.model_dump(mode="json", exclude_none=True),
            self.per_minute,
            self.up_to,
        )


class Start(WithReason):
    """`confirm`: how many it may change; cancel, skip and retry_from_start need it, and a reason."""

    confirm: schemas.PositiveInteger | None = None


START = Start()


class Sample(Schema):
    id: int
    flow: str
    key: str
    status: str


class Preview(Schema):
    """What matches now. `more`: there are more than were counted."""

    verb: str
    matched: int
    more: bool
    left_alone: dict[str, int]
    sample: list[Sample]
    up_to: int
    per_minute: int

    @staticmethod
    def resolve_verb(preview: bulk.BulkPreview) -> str:
        return preview.action.name


class ActionOut(Schema):
    """A bulk action and its progress. `actor` started it. `skipped`: changed since the preview, and left
    unchanged."""

    id: int
    verb: str
    arguments: dict[str, Any]
    filters: dict[str, Any]
    state: str
    actor: str
    previewed_by: str
    source: str
    reason: str
    per_minute: int
    matched: int
    changed: int
    skipped: int
    failed: int
    problem: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    stopped_by: str


class Actions(Schema):
    bulk_actions: list[ActionOut]
    next: str | None


def _get(pk: int) -> BulkAction:
    return schemas.get_or_404(BulkAction, f"there is no bulk action {pk}; GET bulk-actions lists them", pk=pk)


def _require_permission(request: HttpRequest, action: str) -> None:
    """Raise `Problem` unless the caller may start this action."""
    for permission in action_named(action).permissions:
        caller_of(request).require(bulk.SCOPE, permission.removeprefix(f"{APP}."))


@router.get("/bulk-actions", response=Actions, **requires("read", "view_bulkaction"))
def list_bulk_actions(request: HttpRequest, paging: schemas.Page) -> Any:
    """Bulk actions, newest first."""
    return schemas.page_of(BulkAction.objects.all(), paging, "bulk_actions")


@router.post("/bulk-actions/preview", response=Preview, **requires("read", "view_execution"))
def preview_bulk_action(request: HttpRequest, given: BulkRequest) -> Any:
    """Count and sample what an action would change; changes nothing."""
    return bulk.preview(given.as_request())


@router.post("/bulk-actions", response={201: ActionOut}, **requires("operate", "add_bulkaction"))
@idempotent
def create_bulk_action(request: HttpRequest, given: BulkRequest) -> Status[ActionOut]:
    """Create an action with its full count; it does nothing until it is started."""
    _require_permission(request, given.verb)
    made = bulk.create(given.as_request(), actor_of(request, given.reason))
    return Status(201, ActionOut.from_orm(made))


@router.get("/bulk-actions/{int:pk}", response=ActionOut, **requires("read", "view_bulkaction"))
def show_bulk_action(request: HttpRequest, pk: schemas.Id) -> Any:
    """One bulk action."""
    return _get(pk)


@router.post("/bulk-actions/{int:pk}/start", response=ActionOut, **requires("operate", "add_bulkaction"))
@idempotent
def start_bulk_action(request: HttpRequest, pk: schemas.Id, given: Start = START) -> ActionOut:
    """Start it; it runs in the background."""
    action = _in_state(pk, (ActionState.PREVIEWED,))
    _require_permission(request, action.verb)
    return ActionOut.from_orm(bulk.start(pk, actor_of(request, given.reason), given.confirm))


@router.post(
    "/bulk-actions/{int:pk}/undo", response={201: ActionOut}, **requires("operate", "undo_auditentry")
)
@idempotent
def undo_bulk_action(
    request: HttpRequest, pk: schemas.Id, given: WithReason = NO_REASON
) -> Status[ActionOut]:
    """Start a new action that restores the priorities this one changed, or puts back what it cancelled before
    it ran."""
    change = AuditEntry.objects.filter(action_id=_get(pk).pk, action=bulk.audit.START).first()
    if change is None:
        raise Problem("conflict", f"bulk action {pk} was never started")
    undone = undo_by(request, change, given.reason)
    return Status(201, ActionOut.from_orm(bulk.get_or_error(undone.action_id or 0)))


@router.post("/bulk-actions/{int:pk}/stop", response=ActionOut, **requires("operate", "stop_bulkaction"))
@idempotent
def stop_bulk_action(request: HttpRequest, pk: schemas.Id, given: WithReason = NO_REASON) -> ActionOut:
    """Stop it; what it has changed stays changed."""
    _in_state(pk, (ActionState.PREVIEWED, ActionState.RUNNING))
    return ActionOut.from_orm(bulk.stop(pk, actor_of(request, given.reason)))


@router.post(
    "/bulk-actions/{int:pk}/resume", response={201: ActionOut}, **requires("operate", "add_bulkaction")
)
@idempotent
def resume_bulk_action(
    request: HttpRequest, pk: schemas.Id, given: WithReason = NO_REASON
) -> Status[ActionOut]:
    """Start a new action for the rest of a stopped or failed one."""
    action = _in_state(pk, (ActionState.STOPPED, ActionState.FAILED))
    _require_permission(request, action.verb)
    return Status(201, ActionOut.from_orm(bulk.resume(pk, actor_of(request, given.reason))))


def _in_state(pk: int, states: tuple[ActionState, ...]) -> BulkAction:
    """The action if it is in one of these states; raises `Problem` 409 otherwise."""
    action = _get(pk)
    if action.state not in states:
        allowed = " or ".join(states)
        detail = f"bulk action {pk} is {action.state}; it must be {allowed}"
        raise Problem("conflict", detail, state=action.state)
    return action
