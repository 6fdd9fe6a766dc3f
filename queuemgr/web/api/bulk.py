"""Bulk actions: previewed by count and sample, started, watched, stopped, gone on with."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import Http404, HttpRequest
from ninja import Field, Router, Schema, Status

from queuemgr.models import ActionState, BulkAction
from queuemgr.operations import bulk
from queuemgr.operations.bulk.actions import ACTIONS, action_named
from queuemgr.web.api.auth import by, caller_of, needs
from queuemgr.web.api.executions import Wanted
from queuemgr.web.api.idempotency import once
from queuemgr.web.api.pagination import Page, page_of
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import (
    BIGGEST_ID,
    SAID_NOTHING,
    Asked,
    Id,
    Moment,
    PositiveInteger,
    PriorityName,
    Reasoned,
)

router = Router(tags=["bulk actions"])


class Arguments(Asked):
    """What the verb wants to know."""

    priority: PriorityName | None = None
    run_after: Moment | None = None


class ToDo(Reasoned):
    """A verb for every execution the filters meet; `per_minute` 0: as fast as it goes."""

    verb: Literal[tuple(ACTIONS)]  # type: ignore[valid-type]  # made of the verbs there are
    filters: Wanted = Wanted()
    arguments: Arguments = Arguments()
    per_minute: PositiveInteger | None = None
    up_to: Annotated[int, Field(ge=1, le=BIGGEST_ID)] | None = Field(
        None, description="The highest id it may touch; null: the highest there is now."
    )

    def wanted(self) -> bulk.Wanted:
        return bulk.Wanted(
            self.verb,
            self.filters.model_dump(mode="json", exclude_none=True),
            self.arguments.model_dump(mode="json", exclude_none=True),
            self.per_minute,
            self.up_to,
        )


class Sample(Schema):
    id: int
    flow: str
    key: str
    status: str


class Preview(Schema):
    """What it would meet now. `more`: there are more than were counted."""

    verb: str
    matched: int
    more: bool
    left_alone: dict[str, int]
    sample: list[Sample]
    up_to: int
    per_minute: int


class ActionOut(Schema):
    """A bulk action and how far it has come. `skipped` had changed since, and were left alone."""

    id: int
    verb: str
    arguments: dict[str, Any]
    filters: dict[str, Any]
    state: str
    actor: str
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


def _shown(action: BulkAction) -> ActionOut:
    return ActionOut(**{name: getattr(action, name) for name in ActionOut.model_fields})


def _one(pk: int) -> BulkAction:
    found = BulkAction.objects.filter(pk=pk).first()
    if found is None:
        raise Http404(f"there is no bulk action {pk}; GET bulk-actions lists them")
    return found


def _may(request: HttpRequest, verb: str) -> None:
    """Whoever may not do it to one may not do it to many."""
    caller_of(request).must("operate", action_named(verb).permission)


@router.get("/bulk-actions", response=Actions, **needs("read", "view_bulkaction"))
def list_bulk_actions(request: HttpRequest, paging: Page) -> Actions:
    """Bulk actions, newest first."""
    found = page_of(BulkAction.objects.all(), paging)
    return Actions(bulk_actions=[_shown(row) for row in found.rows], next=found.next)


@router.post("/bulk-actions/preview", response=Preview, **needs("read", "view_execution"))
def preview_bulk_action(request: HttpRequest, given: ToDo) -> Preview:
    """Count and show what an action would meet; changes nothing."""
    found = bulk.preview(given.wanted())
    sample = [Sample(id=e.pk, flow=e.flow, key=e.key, status=e.status) for e in found.sample]
    return Preview(
        verb=found.verb.name, matched=found.matched, more=found.more,
        left_alone=dict(found.left_alone), sample=sample, up_to=found.up_to,
        per_minute=found.per_minute,
    )  # fmt: skip


@router.post("/bulk-actions", response={201: ActionOut}, **needs("operate", "add_bulkaction"))
@once
def create_bulk_action(request: HttpRequest, given: ToDo) -> Status[ActionOut]:
    """Write an action down, counted in full; it does nothing until it is started."""
    _may(request, given.verb)
    made = bulk.create(given.wanted(), by(request, given.reason))
    return Status(201, _shown(made))


@router.get("/bulk-actions/{int:pk}", response=ActionOut, **needs("read", "view_bulkaction"))
def show_bulk_action(request: HttpRequest, pk: Id) -> ActionOut:
    """How far it has come."""
    return _shown(_one(pk))


@router.post(
    "/bulk-actions/{int:pk}/start", response=ActionOut, **needs("operate", "add_bulkaction")
)
@once
def start_bulk_action(request: HttpRequest, pk: Id, given: Reasoned = SAID_NOTHING) -> ActionOut:
    """Set it going; it runs in the background."""
    action = _in_state(pk, (ActionState.PREVIEWED,))
    _may(request, action.verb)
    return _shown(bulk.start(pk, by(request, given.reason)))


@router.post(
    "/bulk-actions/{int:pk}/stop", response=ActionOut, **needs("operate", "stop_bulkaction")
)
@once
def stop_bulk_action(request: HttpRequest, pk: Id, given: Reasoned = SAID_NOTHING) -> ActionOut:
    """Let it change no more; what it changed stays changed."""
    _in_state(pk, (ActionState.PREVIEWED, ActionState.RUNNING))
    return _shown(bulk.stop(pk, by(request, given.reason)))


@router.post(
    "/bulk-actions/{int:pk}/go-on",
    response={201: ActionOut},
    **needs("operate", "add_bulkaction"),
)
@once
def resume_bulk_action(
    request: HttpRequest, pk: Id, given: Reasoned = SAID_NOTHING
) -> Status[ActionOut]:
    """Start a new action with what a stopped or failed one left."""
    action = _in_state(pk, (ActionState.STOPPED, ActionState.FAILED))
    _may(request, action.verb)
    return Status(201, _shown(bulk.go_on(pk, by(request, given.reason))))


def _in_state(pk: int, states: tuple[ActionState, ...]) -> BulkAction:
    """The action, where it stands in one of these states; raises `Problem` 409 where it does not."""
    action = _one(pk)
    if action.state not in states:
        wanted = " or ".join(states)
        detail = f"bulk action {pk} is {action.state}; this takes one that is {wanted}"
        raise Problem("conflict", detail, state=action.state)
    return action
