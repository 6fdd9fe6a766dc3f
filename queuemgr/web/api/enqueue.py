"""Enqueueing: a key that is there already changes nothing, and the response says which were new."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Field, Schema, Status
from pydantic import PrivateAttr

from queuemgr.base.errors import BadInput
from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle.enqueue import Enqueued as Done
from queuemgr.lifecycle.enqueue import atomically, enqueue_many, priority_of
from queuemgr.models import Execution
from queuemgr.operations import remote_work
from queuemgr.operations.enqueueing import audited_enqueue, choose_flow
from queuemgr.web.api.auth import actor_of, requires
from queuemgr.web.api.executions import router
from queuemgr.web.api.idempotency import idempotent
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import NO_NUL, PRINTABLE, Input, Key, PriorityName, Timestamp

MAX_ITEMS = 1_000

Item = Annotated[
    str,
    Field(
        min_length=1, max_length=4096, pattern=NO_NUL,
        description="What the flow takes in, as it understands it.",
    ),
]  # fmt: skip


class KeyAndPayload(Input):
    """For a flow that takes no items: a key, unique in the flow, and a payload."""

    key: Key
    payload: dict[str, Any] = {}


FlowName = Annotated[
    str,
    Field(
        max_length=255, pattern=PRINTABLE,
        description="Left out: SLUICE_DEFAULT_FLOW, else the only flow there is.",
    ),
]  # fmt: skip


class EnqueueOptions(Input):
    flow: FlowName = ""
    priority: PriorityName = "normal"
    run_after: Timestamp | None = Field(None, description="Start no earlier.")


class EnqueueOne(EnqueueOptions):
    """One execution: an `item` for a flow that takes items, otherwise a `key` and its `payload`."""

    item: Item | None = None
    key: Key | None = None
    payload: dict[str, Any] | None = None
    _new: list[NewExecution] = PrivateAttr()


class EnqueueMany(EnqueueOptions):
    """Up to 1,000 executions, each as `item` or `{"key": …, "payload": …}`."""

    items: list[Item | KeyAndPayload] = Field(min_length=1, max_length=MAX_ITEMS)
    _new: list[NewExecution] = PrivateAttr()


class Enqueued(Schema):
    """`new` is false if the key was there already; then nothing changed. Or another is there with its unique
    key: then this is that one."""

    new: bool
    id: int
    flow: str
    key: str


class EnqueuedMany(Schema):
    """Counts, and the executions in the order of the request."""

    new: int
    already: int
    executions: list[Enqueued]


def _parse_one(request: HttpRequest, given: EnqueueOne) -> None:
    if (given.item is None) == (given.key is None):
        raise Problem("invalid", "give either an item, or a key (and a payload)")
    if given.item is not None and given.payload is not None:
        raise Problem("invalid", "a payload goes with a key, not with an item")
    item = given.item or KeyAndPayload(key=given.key or "", payload=given.payload or {})
    given._new = parse_items(choose_flow(given.flow).name, [item])


@router.post("/executions", response={201: Enqueued, 200: Enqueued}, **requires("enqueue", "add_execution"))
@idempotent(before=_parse_one)
def enqueue_one(request: HttpRequest, given: EnqueueOne) -> Status[Enqueued]:
    """Enqueue one. 201 for a new execution, 200 if its key was there already, or another with its unique
    key."""
    (made,) = enqueue_items(request, given, given._new).executions
    return Status(201 if made.new else 200, made)


def _parse_many(request: HttpRequest, given: EnqueueMany) -> None:
    given._new = parse_items(choose_flow(given.flow).name, given.items)


@router.post("/executions/many", response=EnqueuedMany, **requires("enqueue", "add_execution"))
@idempotent(before=_parse_many)
def enqueue_several(request: HttpRequest, given: EnqueueMany) -> EnqueuedMany:
    """Enqueue many. An invalid one refuses all; a full queue keeps what was enqueued before."""
    return enqueue_items(request, given, given._new)


def enqueue_items(request: HttpRequest, given: EnqueueOptions, new: Sequence[NewExecution]) -> EnqueuedMany:
    flow, priority = choose_flow(given.flow).name, priority_of(given.priority)
    with audited_enqueue(flow, actor_of(request), priority=given.priority) as counted:
        enter = partial(enqueue_many, flow, new, priority=priority)
        done = counted(atomically(partial(enter, run_after=given.run_after)))
    return EnqueuedMany(
        new=done.new, already=done.already,
        executions=_as_enqueued(flow, new, done),
    )  # fmt: skip


def _as_enqueued(flow: str, executions: Sequence[NewExecution], done: Done) -> list[Enqueued]:
    """A key given twice is new the first time only."""
    keys, new = [done.instead.get(each.key, each.key) for each in executions], set(done.new_keys)
    ids = dict(Execution.objects.filter(flow=flow, key__in=keys).values_list("key", "pk"))
    enqueued = []
    for key in keys:
        enqueued.append(Enqueued(new=key in new, id=ids[key], flow=flow, key=key))
        new.discard(key)
    return enqueued


def parse_items(flow: str, items: Sequence[str | KeyAndPayload]) -> list[NewExecution]:
    """All of them, or a `Problem` about the first that is invalid. Outside of any transaction: it may take
    its time, for which nobody's writes may wait."""
    parsed = []
    for number, item in enumerate(items):
        try:
            given = (item,) if isinstance(item, str) else (None, item.key, item.payload)
            parsed.append(remote_work.new_execution(flow, *given))
        except BadInput as error:
            raise Problem("invalid", f"item {number}: {error}", item=number) from None
    return parsed
