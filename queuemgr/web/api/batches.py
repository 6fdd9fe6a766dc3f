"""Batches: open, add to, close and cancel them; their progress, and their results in order."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema, Status
from pydantic import PrivateAttr

from queuemgr.base.allowance import LONGEST_ENTRY, MOST_OF_A_LIMIT
from queuemgr.base.column_sizes import MAX_INTEGER
from queuemgr.flows.call import Call
from queuemgr.flows.flow import NewExecution, get_flow
from queuemgr.lifecycle.batch_window import MAX_WINDOW
from queuemgr.lifecycle.enqueue import atomically, priority_of
from queuemgr.models import Batch, BatchEvent
from queuemgr.operations import batches, remote_work
from queuemgr.operations.enqueueing import audited_enqueue, choose_flow
from queuemgr.reporting.batch_callbacks import CallbackState, callbacks_of
from queuemgr.reporting.batch_results import Result
from queuemgr.web.api import schemas
from queuemgr.web.api.auth import actor_of, caller_of, requires
from queuemgr.web.api.enqueue import MAX_ITEMS, FlowName, Item, KeyAndPayload, parse_items
from queuemgr.web.api.idempotency import idempotent
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import NO_REASON, PRINTABLE, WithReason

router = Router(tags=["batches"])


class NewCallback(schemas.Input):
    """An execution to be enqueued when the batch completes; without a `key` it gets one of the batch's. Its
    flow takes keys, and no items."""

    flow: Annotated[str, Field(min_length=1, max_length=255, pattern=PRINTABLE)]
    key: Annotated[str, Field(max_length=255, pattern=PRINTABLE)] = ""
    payload: dict[str, Any] = {}
    priority: schemas.PriorityName = "normal"


class NewBatch(WithReason):
    """`fail_fast`: the first final failure cancels the rest. `window`: how many members may start beyond
    the first unfinished one (0: unlimited). `allowances`: what its members may use together, as `5 usd in
    total`. `parent`: the batch that completes after this one. `on_complete`, `on_success` (all done or
    skipped) and `on_failure` are enqueued when it completes, each once."""

    name: Annotated[str, Field(min_length=1, max_length=batches.MAX_NAME, pattern="^[^\\x00-\\x1f\\x7f/]+$")]
    flow: FlowName = ""
    fail_fast: bool = False
    window: Annotated[int, Field(ge=0, le=MAX_WINDOW)] = 0
    allowances: Annotated[str, Field(max_length=MOST_OF_A_LIMIT * (LONGEST_ENTRY + 2), pattern=PRINTABLE)] = (
        ""
    )
    parent: Annotated[str, Field(max_length=batches.MAX_NAME)] = ""
    on_complete: NewCallback | None = None
    on_success: NewCallback | None = None
    on_failure: NewCallback | None = None


class Members(schemas.Input):
    """Up to 1,000 at a time, each as `item` or `{"key": …, "payload": …}`, in this order."""

    priority: schemas.PriorityName = "normal"
    items: list[Item | KeyAndPayload] = Field(min_length=1, max_length=MAX_ITEMS)
    _new: list[NewExecution] = PrivateAttr()


class Added(Schema):
    """`outside_batch`: those of `already` that are not members of this batch."""

    new: int
    already: int
    outside_batch: int


class BatchOut(Schema):
    name: str
    flow: str
    fail_fast: bool
    window: int
    created_at: datetime
    created_by: str
    closed_at: datetime | None
    cancelled_at: datetime | None
    cancelled_because: str
    completed_at: datetime | None = Field(description="When it completed, and its callbacks were enqueued.")
    succeeded: bool | None = Field(description="Whether all was done or skipped when it completed.")


class OneBatch(BatchOut):
    parent: str | None = Field(description="The batch that completes after it.")
    callbacks: list[CallbackState]
    ended_at: datetime | None = Field(description="When it was closed and its last member ended.")
    progress: schemas.ProgressOut

    @staticmethod
    def resolve_parent(batch: Batch) -> str | None:
        return batch.parent.name if batch.parent else None

    @staticmethod
    def resolve_callbacks(batch: Batch) -> list[CallbackState]:
        return callbacks_of(batch)

    @staticmethod
    def resolve_ended_at(batch: Batch) -> datetime | None:
        return batches.ended_at(batch)

    @staticmethod
    def resolve_progress(batch: Batch) -> dict[str, Any]:
        return batches.progress(batch).as_data()


class Batches(Schema):
    batches: list[BatchOut]
    next: str | None


class Results(Schema):
    """Results in member order, up to the first unfinished one. `after`: for the next request."""

    results: list[Result]
    after: int


class Closed(Schema):
    """False if it was closed already."""

    closed: bool


class Cancelled(Schema):
    """How many members had not ended."""

    unfinished: int


class ResultsPage(schemas.Input):
    after: int = Field(-1, ge=-1, le=MAX_INTEGER, description="The `seq` of the last result received.")
    rows: int = Field(100, ge=1, le=1_000)


def _get(name: str) -> Batch:
    return schemas.get_or_404(Batch, f"no batch is called {name}; GET batches lists them", name=name)


@router.get("/batches", response=Batches, **requires("read", "view_batch"))
def list_batches(request: HttpRequest, paging: schemas.Page) -> Any:
    """Batches, newest first."""
    return schemas.page_of(Batch.objects.all(), paging, "batches")


@router.post("/batches", response={201: BatchOut}, **requires("enqueue", "add_batch"))
@idempotent
def open_batch(request: HttpRequest, given: NewBatch) -> Status[BatchOut]:
    """Open a batch. Callbacks are executions: they need the permission `add_execution` as well."""
    if calls := _calls(given):
        caller_of(request).require("enqueue", "add_execution")
    if Batch.objects.filter(name=given.name).exists():
        raise Problem("conflict", f"a batch is called {given.name} already", state="exists")
    made = batches.open_batch(
        given.name, choose_flow(given.flow).name, actor_of(request, given.reason), fail_fast=given.fail_fast,
        window=given.window, callbacks=calls, parent=_get(given.parent) if given.parent else None,
        allowances=given.allowances,
    )  # fmt: skip
    return Status(201, BatchOut.from_orm(made))


def _calls(given: NewBatch) -> dict[str, Call]:
    asked = {event: getattr(given, event) for event in BatchEvent.values}
    return {event: _call(event, callback) for event, callback in asked.items() if callback}


def _call(event: str, given: NewCallback) -> Call:
    flow = get_flow(given.flow)
    if flow.parse_remote_item or flow.parse_item:
        raise Problem(
            "invalid", f"{event}: flow {given.flow} makes keys itself, of items: it is no callback here"
        )
    remote_work.check_key(given.key)
    payload = remote_work.checked_payload(given.flow, given.payload)
    return Call(given.flow, payload, given.key, priority_of(given.priority))


@router.get("/batches/{name}", response=OneBatch, **requires("read", "view_batch"))
def show_batch(request: HttpRequest, name: schemas.Name) -> Any:
    """A batch with its progress and ETA."""
    return _get(name)


def _parse_members(request: HttpRequest, name: str, given: Members) -> None:
    given._new = parse_items(_get(name).flow, given.items)


@router.post("/batches/{name}/add", response=Added, **requires("enqueue", "add_batch"))
@idempotent(before=_parse_members)
def add_to_batch(request: HttpRequest, name: schemas.Name, given: Members) -> Added:
    """Add members, which needs the permission `add_execution` as well. Adding the same again changes nothing:
    a member keeps its number."""
    caller_of(request).require("enqueue", "add_execution")
    batch = _get(name)
    if batch.closed_at is not None:
        state = "cancelled" if batch.cancelled_at else "closed"
        raise Problem("conflict", f"batch {name} is {state}: open another", state=state)
    how = {"priority": given.priority, "batch": batch.name}
    with audited_enqueue(batch.flow, actor_of(request), **how) as counted:
        add = partial(batches.add, batch, given._new, priority=priority_of(given.priority))
        done = counted(atomically(add))
    return Added(new=done.new, already=done.already, outside_batch=done.outside_batch)


@router.post("/batches/{name}/close", response=Closed, **requires("operate", "change_batch"))
@idempotent
def close_batch(request: HttpRequest, name: schemas.Name, given: WithReason = NO_REASON) -> Closed:
    """Accept no more members; the batch ends when its members have."""
    return Closed(closed=batches.close(_get(name), actor_of(request, given.reason)))


@router.post("/batches/{name}/cancel", response=Cancelled, **requires("operate", "change_batch"))
@idempotent
def cancel_batch(request: HttpRequest, name: schemas.Name, given: WithReason = NO_REASON) -> Cancelled:
    """Cancel waiting members, ask running ones to stop, and close the batch."""
    return Cancelled(unfinished=batches.cancel(_get(name), actor_of(request, given.reason)))


@router.get("/batches/{name}/results", response=Results, **requires("read", "view_batch"))
def list_results(request: HttpRequest, name: schemas.Name, page: Query[ResultsPage]) -> Results:
    """Results in member order. Repeat with the `after` of the response for the next ones."""
    found = list(batches.results(_get(name), page.after, page.rows))
    return Results(results=found, after=found[-1].seq if found else page.after)
