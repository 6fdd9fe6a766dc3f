"""Batches: opened, added to, closed, cancelled; how far they are, and what came of them in order."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from django.http import Http404, HttpRequest
from ninja import Field, Query, Router, Schema, Status

from queuemgr.lifecycle.batch_window import MAX_WINDOW
from queuemgr.lifecycle.enqueue import atomically, priority_of
from queuemgr.models import Batch
from queuemgr.operations import batches
from queuemgr.operations.audited_enqueue import audited_enqueue
from queuemgr.web.api.auth import by, needs
from queuemgr.web.api.enqueue import MOST_ITEMS, Given, Item, understood
from queuemgr.web.api.idempotency import once
from queuemgr.web.api.pagination import Page, page_of
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import (
    SAID_NOTHING,
    Asked,
    Name,
    PriorityName,
    ProgressOut,
    Reasoned,
    Text,
)

router = Router(tags=["batches"])

MOST_RESULTS = 1_000


class NewBatch(Reasoned):
    """`fail_fast`: the first member that fails for good cancels the rest. `window`: none starts so many
    or more beyond the first not yet ended (0: any may)."""

    name: Annotated[
        str, Field(min_length=1, max_length=batches.MAX_NAME, pattern="^[^\\x00-\\x1f\\x7f/]+$")
    ]
    flow: Text = "papers"
    fail_fast: bool = False
    window: Annotated[int, Field(ge=0, le=MAX_WINDOW)] = 0


class Members(Asked):
    """Up to 1,000 at a time, each as `item` or `{"key": …, "payload": …}`, numbered in their order."""

    priority: PriorityName = "normal"
    items: list[Item | Given] = Field(min_length=1, max_length=MOST_ITEMS)


class Added(Schema):
    """`elsewhere`: those of `already` that are no members of this batch, and did not become one."""

    new: int
    already: int
    elsewhere: int


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


class OneBatch(BatchOut):
    ended_at: datetime | None = Field(description="When it was closed and its last member ended.")
    progress: ProgressOut


class Batches(Schema):
    batches: list[BatchOut]
    next: str | None


class ResultOut(Schema):
    """How a member ended; `seq` is its place, from 0; `item` what its flow knows of it."""

    seq: int
    key: str
    state: str
    error_kind: str
    error: str
    finished: datetime | None
    item: dict[str, Any]


class Results(Schema):
    """Members in the order given, up to the first not ended. `after`: what to ask with next."""

    results: list[ResultOut]
    after: int


class Closed(Schema):
    """False where it was closed before."""

    closed: bool


class Cancelled(Schema):
    """How many members had not ended."""

    unfinished: int


class Following(Asked):
    after: int = Field(-1, ge=-1, le=2**31 - 1, description="The place of the last result met.")
    rows: int = Field(100, ge=1, le=MOST_RESULTS)


def _one(name: str) -> Batch:
    found = Batch.objects.filter(name=name).first()
    if found is None:
        raise Http404(f"no batch is called {name}; GET batches lists them")
    return found


def _open(name: str) -> Batch:
    """A batch that can still be added to; raises `Problem` 409 for any other."""
    found = _one(name)
    if found.closed_at is not None:
        state = "cancelled" if found.cancelled_at else "closed"
        raise Problem("conflict", f"batch {name} is {state}: open another", state=state)
    return found


def _facts(batch: Batch) -> dict[str, Any]:
    return {name: getattr(batch, name) for name in BatchOut.model_fields}


@router.get("/batches", response=Batches, **needs("read", "view_batch"))
def list_batches(request: HttpRequest, paging: Page) -> Batches:
    """Batches, newest first."""
    found = page_of(Batch.objects.all(), paging)
    return Batches(batches=[BatchOut(**_facts(row)) for row in found.rows], next=found.next)


@router.post("/batches", response={201: BatchOut}, **needs("enqueue", "add_batch"))
@once
def open_batch(request: HttpRequest, given: NewBatch) -> Status[BatchOut]:
    """Open a batch."""
    if Batch.objects.filter(name=given.name).exists():
        raise Problem("conflict", f"a batch is called {given.name} already", state="exists")
    made = batches.open_batch(
        given.name, given.flow, by(request, given.reason), fail_fast=given.fail_fast,
        window=given.window,
    )  # fmt: skip
    return Status(201, BatchOut(**_facts(made)))


@router.get("/batches/{name}", response=OneBatch, **needs("read", "view_batch"))
def show_batch(request: HttpRequest, name: Name) -> OneBatch:
    """How far a batch is, and when it is likely to be done."""
    batch = _one(name)
    progress = ProgressOut(**asdict(batches.progress(batch)))
    return OneBatch(**_facts(batch), ended_at=batches.ended_at(batch), progress=progress)


@router.post("/batches/{name}/add", response=Added, **needs("enqueue", "add_batch"))
@once
def add_to_batch(request: HttpRequest, name: Name, given: Members) -> Added:
    """Make members of these. The same again changes nothing: a member keeps its place."""
    batch = _open(name)
    intakes = understood(batch.flow, given.items)
    how = {"priority": given.priority, "batch": batch.name}
    with audited_enqueue(batch.flow, by(request), **how) as counted:
        add = partial(batches.add, batch, intakes, priority=priority_of(given.priority))
        done = counted(atomically(add))
    return Added(new=done.new, already=done.already, elsewhere=done.elsewhere)


@router.post("/batches/{name}/close", response=Closed, **needs("operate", "change_batch"))
@once
def close_batch(request: HttpRequest, name: Name, given: Reasoned = SAID_NOTHING) -> Closed:
    """Let nothing more be added: when all members have ended, so has the batch."""
    return Closed(closed=batches.close(_one(name), by(request, given.reason)))


@router.post("/batches/{name}/cancel", response=Cancelled, **needs("operate", "change_batch"))
@once
def cancel_batch(request: HttpRequest, name: Name, given: Reasoned = SAID_NOTHING) -> Cancelled:
    """Cancel what waits, ask what runs to stop, and close it."""
    return Cancelled(unfinished=batches.cancel(_one(name), by(request, given.reason)))


@router.get("/batches/{name}/results", response=Results, **needs("read", "view_batch"))
def list_results(
    request: HttpRequest, name: Name, following: Annotated[Following, Query(...)]
) -> Results:
    """What came of its members, in order. Ask again with `after`: none is told twice or missed."""
    found = list(batches.results(_one(name), following.after, following.rows))
    told = [ResultOut(**asdict(result)) for result in found]
    return Results(results=told, after=found[-1].seq if found else following.after)
