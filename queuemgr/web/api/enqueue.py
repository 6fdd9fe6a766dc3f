"""Enqueueing: the same key twice is one execution, and the answer says which of them were new."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

from django.db import transaction
from django.http import HttpRequest
from ninja import Field, Schema, Status
from pydantic import ValidationError

from queuemgr.base.errors import BadInput
from queuemgr.flows import payload_validation
from queuemgr.flows.flow import NewExecution, get_flow
from queuemgr.lifecycle.enqueue import atomically, enqueue_many, priority_of
from queuemgr.models import Execution
from queuemgr.operations.audited_enqueue import audited_enqueue
from queuemgr.web.api.auth import by, needs
from queuemgr.web.api.executions import router
from queuemgr.web.api.idempotency import once
from queuemgr.web.api.problems import Problem
from queuemgr.web.api.schemas import NO_NUL, Asked, Key, Moment, PositiveInteger, PriorityName, Text

MOST_ITEMS = 1_000

Item = Annotated[
    str,
    Field(
        min_length=1, max_length=4096, pattern=NO_NUL,
        description="What the flow takes in; of papers an arXiv id, a DOI or a URL.",
    ),
]  # fmt: skip


class Given(Asked):
    """Work for a flow that takes no items in: a key, unique in the flow, and a payload."""

    key: Key
    payload: dict[str, Any] = {}


class Common(Asked):
    flow: Text = "papers"
    priority: PriorityName = "normal"
    run_after: Moment | None = Field(None, description="It starts no earlier.")


class NewOne(Common):
    """One execution: an `item` for a flow that takes items in, else a `key` and its `payload`."""

    item: Item | None = None
    key: Key | None = None
    payload: dict[str, Any] | None = None


class NewMany(Common):
    """Up to 1,000 executions, each as `item` or `{"key": …, "payload": …}`."""

    items: list[Item | Given] = Field(min_length=1, max_length=MOST_ITEMS)


class Enqueued(Schema):
    """`new` is false where the key was there already, which changed nothing."""

    new: bool
    id: int
    flow: str
    key: str


class EnqueuedMany(Schema):
    """Counts, and each execution in the order given."""

    new: int
    already: int
    executions: list[Enqueued]


class Probe(Asked):
    """What a probe may be told over the network: nothing that writes files or kills its worker."""

    seconds: float = Field(0, ge=0, le=3600)
    cpu_ms: float = Field(0, ge=0, le=60_000)
    phase: Literal["prep", "expensive", "wrap"] = "prep"
    requests: PositiveInteger = 0
    limit_key: Annotated[str, Field(max_length=200, pattern="^[^\\x00-\\x1f\\x7f]*$")] = ""
    tenant: Annotated[str, Field(max_length=100, pattern="^[^\\x00-\\x20\\x7f]*$")] = ""
    weight: int = Field(1, ge=1, le=100_000)
    tokens: dict[
        Annotated[str, Field(pattern="^[a-z_]{1,20}$")], Annotated[int, Field(ge=1, le=100_000)]
    ] = {}
    fail: Annotated[str, Field(max_length=32, pattern="^[a-z_]*$")] = ""
    retry_after: float = Field(0, ge=0, le=86_400)


@router.post(
    "/executions", response={201: Enqueued, 200: Enqueued}, **needs("enqueue", "add_execution")
)
@once
def enqueue_one(request: HttpRequest, given: NewOne) -> Status[Enqueued]:
    """Enqueue one. 201 for a new execution, 200 where its key was there already."""
    if (given.item is None) == (given.key is None):
        raise Problem("invalid", "give either an item, or a key (and a payload)")
    if given.item is not None and given.payload is not None:
        raise Problem("invalid", "a payload goes with a key, not with an item")
    wanted = given.item or Given(key=given.key or "", payload=given.payload or {})
    (made,) = enqueue_given(request, given, [wanted]).executions
    return Status(201 if made.new else 200, made)


@router.post("/executions/many", response=EnqueuedMany, **needs("enqueue", "add_execution"))
@once
def enqueue_several(request: HttpRequest, given: NewMany) -> EnqueuedMany:
    """Enqueue many. A bad one refuses all, by its number; a full queue keeps what went in before."""
    return enqueue_given(request, given, given.items)


def enqueue_given(
    request: HttpRequest, given: Common, items: Sequence[str | Given]
) -> EnqueuedMany:
    intakes, priority = understood(given.flow, items), priority_of(given.priority)
    with audited_enqueue(given.flow, by(request), priority=given.priority) as counted:
        enter = partial(enqueue_many, given.flow, intakes, priority=priority)
        done = counted(atomically(partial(enter, run_after=given.run_after)))
    return EnqueuedMany(
        new=done.new, already=done.already,
        executions=told(given.flow, intakes, set(done.new_keys)),
    )  # fmt: skip


def told(flow: str, intakes: Sequence[NewExecution], new: set[str]) -> list[Enqueued]:
    """Each of these as it was entered; a key given twice is new once."""
    rows = Execution.objects.filter(flow=flow, key__in=[intake.key for intake in intakes])
    ids = dict(rows.values_list("key", "pk"))
    found = []
    for intake in intakes:
        is_new = intake.key in new
        new.discard(intake.key)
        found.append(Enqueued(new=is_new, id=ids[intake.key], flow=flow, key=intake.key))
    return found


def understood(flow: str, items: Sequence[str | Given]) -> list[NewExecution]:
    """All of them, or none: what a flow remembers of an item is undone when a later one is bad."""
    with transaction.atomic():
        return [_one(flow, number, item) for number, item in enumerate(items)]


def _one(flow: str, number: int, item: str | Given) -> NewExecution:
    try:
        return _taken_in(flow, item) if isinstance(item, str) else _as_given(flow, item)
    except BadInput as error:
        raise Problem("invalid", f"item {number}: {error}", item=number) from None


def _taken_in(name: str, item: str) -> NewExecution:
    flow = get_flow(name)
    parse_item = flow.parse_remote_item or flow.parse_item
    if parse_item is None:
        raise BadInput(f"flow {name} takes no items in: give a key and a payload")
    return parse_item(item)


def _as_given(name: str, given: Given) -> NewExecution:
    if get_flow(name).parse_item is not None:
        raise BadInput(f"flow {name} makes keys itself: give an item")
    return NewExecution(given.key, from_afar(name, given.payload))


def from_afar(flow: str, payload: dict[str, Any]) -> dict[str, Any]:
    """A payload that came over the network, as it may be stored; raises `BadInput`."""
    stored = payload_validation.validate(payload)
    return _probe(stored) if flow == "probe" else stored


def _probe(payload: dict[str, Any]) -> dict[str, Any]:
    try:
        return Probe(**payload).model_dump(exclude_defaults=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, ("payload", *first["loc"])))
        raise BadInput(f"{where}: {first['msg']}") from None
