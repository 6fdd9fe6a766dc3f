"""Executions: their state, why they wait, their attempts, and links to their pages."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from django.http import Http404, HttpRequest
from django.urls import reverse
from ninja import Field, Query, Router, Schema

from queuemgr.base.errors import UnknownFlow
from queuemgr.flows.flow import PRIORITY_NAMES, get_flow
from queuemgr.models import Attempt, Execution, State
from queuemgr.reporting import queue_position
from queuemgr.reporting.filtering import executions_matching
from queuemgr.web.api.auth import caller_of, requires
from queuemgr.web.api.pagination import Page, Paging, page_of, refuse_unknown
from queuemgr.web.api.schemas import BIGGEST_ID, PRINTABLE, ExecutionOut, Id, Input, PriorityName, Timestamp

router = Router(tags=["executions"])


class Executions(Schema):
    """A page, newest first; `next` is the cursor of the page after, null on the last."""

    executions: list[ExecutionOut]
    next: str | None


class AttemptOut(Schema):
    """One attempt at a step."""

    lease: str
    phase: str
    step: str
    priority: str
    worker: str
    limit_keys: str
    due_at: datetime | None
    leased_at: datetime
    started_at: datetime
    ended_at: datetime
    outcome: str
    error_kind: str
    error_message: str
    requests: int = Field(description="Requests charged to the budget.")


class Attempts(Schema):
    attempts: list[AttemptOut]
    next: str | None


class LinkOut(Schema):
    label: str
    url: str


class Links(Schema):
    """Pages about an execution and its item (null: none), and the files made so far."""

    execution: str
    item: str | None
    artifacts: list[LinkOut]


class ReasonOut(Schema):
    """A limit that blocks it, and the earliest time at which that may end."""

    limit: str
    reason: str
    kind: str
    until: datetime | None


class Why(Schema):
    """Why it waits, as a sentence and by limit; its position and estimated times."""

    key: str
    flow: str
    status: str
    why: str
    reasons: list[ReasonOut]
    not_before: datetime | None
    queue: str | None
    position: int | None
    position_is_at_least: bool
    starts_at: datetime | None
    finishes_at: datetime | None
    can_change_at: datetime | None
    started_lately: int | None
    started_lately_seconds: int | None
    unknown: str = Field(description="Why there is no estimate.")


Word = Annotated[str | None, Field(min_length=1, max_length=255, pattern=PRINTABLE)]


class ExecutionFilter(Input):
    """Executions that match every given member."""

    flow: Word = None
    phase: Word = None
    step: Word = None
    state: Literal[tuple(State.values)] | None = None  # type: ignore[valid-type]  # made of the enum
    status: Word = None
    error_kind: Word = None
    error_fingerprint: Word = None
    key: Word = None
    key_prefix: Word = None
    limit: Annotated[Word, Field(description="It waits on this limit, or runs or last ran under it.")] = None
    worker: Word = None
    batch: Word = None
    priority: PriorityName | None = None
    created_before: Timestamp | None = None
    created_after: Timestamp | None = None
    ids: Annotated[list[Annotated[int, Field(ge=1, le=BIGGEST_ID)]] | None, Field(max_length=500)] = None

    def as_filters(self) -> dict[str, object]:
        return self.model_dump(exclude_none=True)


def execution_out(execution: Execution, *, payload: bool) -> ExecutionOut:
    """`payload`: whether the caller may see payload and context."""
    plain = (
        "id", "flow", "key", "status", "state", "phase", "step", "run_after", "wait_reason",
        "error_kind", "error_message", "error_fingerprint", "batch_seq", "created_at", "finished_at",
    )  # fmt: skip
    return ExecutionOut(
        **{name: getattr(execution, name) for name in plain},
        priority=PRIORITY_NAMES[execution.priority],
        batch=execution.batch.name if execution.batch else None,
        payload=execution.payload if payload else None,
        context=execution.context if payload else None,
    )


def get_execution(pk: int) -> Execution:
    """The execution with this id; raises `Http404`."""
    try:
        return Execution.objects.select_related("batch").get(pk=pk)
    except Execution.DoesNotExist:
        raise Http404(f"no execution has the id {pk}") from None


@router.get("/executions", response=Executions, **requires("read", "view_execution"))
def list_executions(
    request: HttpRequest, given: Annotated[ExecutionFilter, Query(...)], paging: Page
) -> Executions:
    """Executions, newest first. The cursor is an id: new or deleted rows shift no page."""
    refuse_unknown(request, ExecutionFilter, Paging)
    payload = caller_of(request).sees_payloads
    rows = executions_matching(given.as_filters(), bounded=True).select_related("batch")
    found = page_of(rows if payload else rows.defer("payload", "context"), paging)
    return Executions(executions=[execution_out(row, payload=payload) for row in found.rows], next=found.next)


@router.get("/executions/{int:pk}", response=ExecutionOut, **requires("read", "view_execution"))
def show_execution(request: HttpRequest, pk: Id) -> ExecutionOut:
    """One execution."""
    return execution_out(get_execution(pk), payload=caller_of(request).sees_payloads)


@router.get("/executions/{int:pk}/attempts", response=Attempts, **requires("read", "view_attempt"))
def list_attempts(request: HttpRequest, pk: Id, paging: Page) -> Attempts:
    """Its attempts, newest first."""
    found = page_of(get_execution(pk).attempts.all(), paging)
    return Attempts(attempts=[_attempt(row) for row in found.rows], next=found.next)


def _attempt(row: Attempt) -> AttemptOut:
    plain = (
        "phase", "step", "worker", "limit_keys", "due_at", "leased_at", "started_at", "ended_at",
        "outcome", "error_kind", "error_message",
    )  # fmt: skip
    return AttemptOut(
        **{name: getattr(row, name) for name in plain},
        lease=str(row.lease_id),
        priority=PRIORITY_NAMES[row.priority],
        requests=row.cost,
    )


@router.get("/executions/{int:pk}/why", response=Why, **requires("read", "view_execution"))
def explain_execution(request: HttpRequest, pk: Id) -> Why:
    """Why it waits and when it is likely to start; or how it ended."""
    return Why(**queue_position.serialize(get_execution(pk)))


@router.get("/executions/{int:pk}/links", response=Links, **requires("read", "view_execution"))
def link_execution(request: HttpRequest, pk: Id) -> Links:
    """Links to its page, its item's page, and its artifacts."""
    execution = get_execution(pk)
    try:
        flow = get_flow(execution.flow)
        item, artifacts = flow.link(execution.key), flow.artifacts(execution.key)
    except UnknownFlow:
        item, artifacts = "", ()
    page, absolute = (reverse("admin:queuemgr_execution_change", args=[pk]), request.build_absolute_uri)
    return Links(
        execution=absolute(page),
        item=absolute(item) if item else None,
        artifacts=[LinkOut(label=link.label, url=absolute(link.address)) for link in artifacts],
    )
