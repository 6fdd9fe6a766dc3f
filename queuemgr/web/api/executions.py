"""Executions: their state, why they wait, their attempts, and links to their pages."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from ninja import Field, Query, Router, Schema
from pydantic import BeforeValidator

from queuemgr.base.errors import UnknownFlow
from queuemgr.base.redaction import without_secrets_in
from queuemgr.flows import callbacks
from queuemgr.flows.callbacks import CallbackFailed
from queuemgr.flows.flow import Link, get_flow
from queuemgr.models import UNBOUNDED, Attempt, Execution, State
from queuemgr.reporting import queue_position
from queuemgr.reporting.filtering import FILTERS, executions_matching
from queuemgr.web.api import schemas
from queuemgr.web.api.auth import caller_of, requires
from queuemgr.web.api.problems import Problem

router = Router(tags=["executions"])


class ExecutionOut(Schema):
    """An execution. Unique key, payload, context and result are null for callers without permission to see
    them, and have `***` in place of the installation's secrets."""

    id: int
    flow: str
    key: str
    status: str = Field(description="The word its phase has for it: while it waits, while it runs.")
    state: str
    phase: str
    step: str
    priority: schemas.PriorityOut
    run_after: datetime | None
    wait_reason: str
    error_kind: str
    error_message: str
    error_fingerprint: str
    batch: Annotated[str | None, BeforeValidator(lambda batch: batch and batch.name)]
    batch_seq: int | None
    created_at: datetime
    finished_at: datetime | None
    unique_key: str | None = Field(None, description="The unique key it holds: fields of its payload.")
    payload: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    result: Any = None

    @staticmethod
    def resolve_unique_key(row: Execution, context: Any) -> Any:
        return _shown(row.unique_key, context) if row.holds_unique_key(timezone.now()) else None

    @staticmethod
    def resolve_payload(row: Execution, context: Any) -> Any:
        return _shown(row.payload, context)

    @staticmethod
    def resolve_context(row: Execution, context: Any) -> Any:
        return _shown(row.context, context)

    @staticmethod
    def resolve_result(row: Execution, context: Any) -> Any:
        return _shown(row.result, context)


def _shown(value: Any, context: Any) -> Any:
    """JSON of a step's, for callers who may see it."""
    return without_secrets_in(value) if caller_of(context["request"]).sees_payloads else None


class Executions(Schema):
    """A page, newest first; `next` is the cursor of the page after, null on the last."""

    executions: list[ExecutionOut]
    next: str | None


class AttemptOut(Schema):
    """One attempt at a step."""

    lease: UUID = Field(validation_alias="lease_id")
    phase: str
    step: str
    priority: schemas.PriorityOut
    worker: str
    limit_keys: str
    due_at: datetime | None
    leased_at: datetime
    started_at: datetime
    ended_at: datetime
    outcome: str
    error_kind: str
    error_message: str
    traceback: str | None = Field(description="Of an unexpected error, with secrets masked.")
    log: str | None = Field(
        None, description="What its step logged last, if it failed; null for who may not see payloads."
    )
    requests: int = Field(validation_alias="cost", description="Requests charged to the budget.")

    @staticmethod
    def resolve_log(row: Attempt, context: Any) -> Any:
        return _shown(row.log, context)


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
    problems: list[str] = Field([], description="Callbacks of its flow that failed, whose links are missing.")


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
    starts_at_p10: datetime | None = schemas.P10
    starts_at_p90: datetime | None = schemas.P90
    finishes_at: datetime | None
    finishes_at_p10: datetime | None = schemas.P10
    finishes_at_p90: datetime | None = schemas.P90
    can_change_at: datetime | None
    started_lately: int | None
    started_lately_seconds: int | None
    unknown: str = Field(description="Why there is no estimate.")


Word = Annotated[str | None, Field(min_length=1, max_length=255, pattern=schemas.PRINTABLE)]


def _in_lists(name: str) -> str:
    """What a list reads for this filter; a bulk action reads every row."""
    return f"In lists: {FILTERS[name].bounded_help[0].lower()}{FILTERS[name].bounded_help[1:]}"


class ExecutionFilter(schemas.Input):
    """Executions that match every given member. The names are those of `reporting.filtering.FILTERS`."""

    flow: Word = None
    phase: Word = None
    step: Word = None
    state: Literal[tuple(State.values)] | None = None  # type: ignore[valid-type]  # made of the enum
    status: Word = None
    error_kind: Word = None
    error_fingerprint: Word = None
    key: Word = None
    key_prefix: Word = None
    text: Annotated[Word, Field(description=f"Words in its error. {_in_lists('text')}")] = None
    limit: Annotated[
        Word, Field(description=f"It waits on this limit, or runs or last ran under it. {_in_lists('limit')}")
    ] = None
    worker: Annotated[Word, Field(description=f"It runs or last ran there. {_in_lists('worker')}")] = None
    batch: Word = None
    priority: schemas.PriorityName | None = None
    created_before: schemas.Timestamp | None = None
    created_after: schemas.Timestamp | None = None
    ids: Annotated[list[schemas.IdNumber] | None, Field(max_length=500)] = None


def get_execution(pk: int) -> Execution:
    """The execution with this id; raises `Http404`."""
    return schemas.get_or_404(Execution, f"no execution has the id {pk}", pk=pk)


@router.get("/executions", response=Executions, **requires("read", "view_execution"))
def list_executions(request: HttpRequest, given: Query[ExecutionFilter], paging: schemas.Page) -> Any:
    """Executions, newest first. The cursor is an id: new or deleted rows shift no page."""
    names = [*ExecutionFilter.model_fields, *schemas.Paging.model_fields]
    if unknown := [name for name in request.GET if name not in names]:
        # A mistyped filter would match everything.
        raise Problem("invalid", f"no parameter is called {unknown[0]!r}: {', '.join(names)}")
    rows = executions_matching(given.model_dump(exclude_none=True), bounded=True).select_related("batch")
    hidden = () if caller_of(request).sees_payloads else UNBOUNDED
    return schemas.page_of(rows.defer(*hidden), paging, "executions")


@router.get("/executions/{int:pk}", response=ExecutionOut, **requires("read", "view_execution"))
def show_execution(request: HttpRequest, pk: schemas.Id) -> Any:
    """One execution."""
    return get_execution(pk)


@router.get("/executions/{int:pk}/attempts", response=Attempts, **requires("read", "view_attempt"))
def list_attempts(request: HttpRequest, pk: schemas.Id, paging: schemas.Page) -> Any:
    """Its attempts, newest first."""
    return schemas.page_of(get_execution(pk).attempts.all(), paging, "attempts")


@router.get("/executions/{int:pk}/why", response=Why, **requires("read", "view_execution"))
def explain_execution(request: HttpRequest, pk: schemas.Id) -> Any:
    """Why it waits and when it is likely to start; or how it ended."""
    return queue_position.serialize(get_execution(pk))


@router.get("/executions/{int:pk}/links", response=Links, **requires("read", "view_execution"))
def link_execution(request: HttpRequest, pk: schemas.Id) -> Links:
    """Links to its page, its item's page, and its artifacts."""
    execution = get_execution(pk)
    item, artifacts, problems = _links_of_flow(execution)
    page, absolute = (reverse("admin:queuemgr_execution_change", args=[pk]), request.build_absolute_uri)
    return Links(
        execution=absolute(page),
        item=absolute(item) if item else None,
        artifacts=[LinkOut(label=link.label, url=absolute(link.address)) for link in artifacts],
        problems=problems,
    )


def _links_of_flow(execution: Execution) -> tuple[str, list[Link], list[str]]:
    """The address of its item, the links to its files, and which callbacks failed."""
    item, artifacts, problems = "", list[Link](), list[str]()
    try:
        flow = get_flow(execution.flow)
    except UnknownFlow:
        return item, artifacts, problems
    try:
        item = callbacks.link(flow, execution.key)
    except CallbackFailed as failure:
        problems.append(str(failure))
    try:
        artifacts = callbacks.artifacts(flow, execution.key)
    except CallbackFailed as failure:
        problems.append(str(failure))
    return item, artifacts, problems
