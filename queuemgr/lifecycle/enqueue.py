"""Store first, dispatch on commit: an execution exists before any message of it does.

The same key twice is one execution, by the database's unique constraint, in bulk and under races.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

from django.db import connection, transaction
from django.utils import timezone

from queuemgr.base.errors import BadInput, QueueFull
from queuemgr.flows.flow import NORMAL, PRIORITIES, PRIORITY_NAMES, NewExecution, get_flow
from queuemgr.lifecycle import tracing
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import Execution
from queuemgr.scheduling import backpressure, routes, wakeups
from queuemgr.scheduling.claims import RouteKind

ROWS_PER_STATEMENT = 500
MAX_KEY = 255

MAX_HORIZON = timedelta(days=3660)
"""How far ahead a person may set a time: further is a typing error, and the database's last year is near."""


@dataclass(frozen=True, slots=True)
class Enqueued:
    """How many executions were made, and how many keys were already there.

    `elsewhere` are those of the latter that are no members of the batch they were to be added to.
    """

    new: int = 0
    already: int = 0
    new_keys: tuple[str, ...] = field(default=(), repr=False)
    elsewhere: int = 0

    def __str__(self) -> str:
        """As `3 new, 2 already there, 1 of them outside this batch`."""
        outside = f", {self.elsewhere} of them outside this batch" if self.elsewhere else ""
        return f"{self.new} new, {self.already} already there{outside}"

    def __add__(self, other: Enqueued) -> Enqueued:
        return Enqueued(
            self.new + other.new,
            self.already + other.already,
            self.new_keys + other.new_keys,
            self.elsewhere + other.elsewhere,
        )


Rows = Sequence[Execution]


def priority_of(name: str) -> int:
    """The rank of a priority's name; raises `BadInput` naming those there are."""
    try:
        return PRIORITIES[name]
    except KeyError:
        raise BadInput(f"priority {name!r} is not one of {', '.join(PRIORITIES)}") from None


def check_rank(priority: int) -> None:
    """Raise `BadInput` for a rank without a name: stored, it would stop every dispatch."""
    if priority not in PRIORITY_NAMES:
        ranks = ", ".join(f"{name} ({rank})" for name, rank in PRIORITIES.items())
        raise BadInput(f"priority {priority} is not one of {ranks}")


def check_horizon(what: str, when: datetime) -> None:
    """Raise `BadInput` for a time more than ten years ahead."""
    if when - timezone.now() > MAX_HORIZON:
        raise BadInput(f"{what} {when:%Y-%m-%d} is more than ten years ahead: give an earlier time")


def enqueue(
    flow: str,
    key: str,
    payload: Mapping[str, Any] | None = None,
    *,
    priority: int = NORMAL,
    run_after: datetime | None = None,
) -> bool:
    """Make one execution; False when the key was already there, which changes nothing.

    Raises `UnknownFlow`, `BadInput` (key empty or too long, no such priority), `NeverFits` and
    `QueueFull`.
    """
    intake = NewExecution(key, dict(payload or {}))
    return enqueue_many(flow, [intake], priority=priority, run_after=run_after).new == 1


def enqueue_many(
    flow: str,
    intakes: Iterable[NewExecution],
    *,
    priority: int = NORMAL,
    run_after: datetime | None = None,
    enter: Callable[[Rows], Enqueued] | None = None,
) -> Enqueued:
    """Make an execution for every key not yet there, a few hundred to a transaction.

    `enter` inserts some of them in a transaction of its own, where more belongs to it than `insert`.
    What went in before an error stays in, and `QueueFull` says how many did; nothing is dispatched
    inside the caller's transaction.
    """
    check_rank(priority)
    if run_after is not None:
        check_horizon("run_after", run_after)
    total, fits = Enqueued(), set[RouteKind]()
    iterator = iter(intakes)
    while some := list(islice(iterator, ROWS_PER_STATEMENT)):
        rows = [_execution(flow, intake, priority, run_after, fits) for intake in some]
        try:
            total += (enter or _enter)(rows)
        except QueueFull as full:
            new, already = total.new + full.new, total.already + full.already
            raise QueueFull(full.queue, full.depth, full.cap, new, already) from None
    return total


Done = TypeVar("Done")


def atomically(enter: Callable[[], Done]) -> Done:
    """Enqueue all of it, or as much as a full queue takes; any other refusal undoes what went in before.

    Nobody sees a part of it: neither what it made known, nor the executions of that.
    """
    with transaction.atomic():
        try:
            return enter()
        except QueueFull as error:
            full = error
    raise full


def _enter(rows: Rows) -> Enqueued:
    with transaction.atomic():
        done, full = insert(rows)
    if full:
        raise QueueFull(full.queue, full.depth, full.cap, done.new, done.already)
    return done


def insert(rows: Rows) -> tuple[Enqueued, QueueFull | None]:
    """Insert these rows, as far as their queues have room, and leave word for the next decision; in
    the caller's transaction. What went in, and the refusal of the first that did not."""
    with tracing.enqueuing(rows[0].flow, rows) as span:
        taken, full = backpressure.admit_new(rows)
        new = _insert_new(taken) if taken else []
        if span is not None:
            span.set_attribute("sluicegate.new", len(new))
    wakeups.post({row.route_id for row in taken if row.route_id})
    transaction.on_commit(dispatch)
    return Enqueued(len(new), len(taken) - len(new), tuple(new)), full


def _execution(
    flow_name: str,
    intake: NewExecution,
    priority: int,
    run_after: datetime | None,
    fits: set[RouteKind],
) -> Execution:
    """The row of an intake; `fits` remembers the routes already found to fit."""
    if not 0 < len(intake.key) <= MAX_KEY:
        raise BadInput(
            f"key {intake.key[:60]!r} has {len(intake.key)} characters; 1 to {MAX_KEY} fit"
        )
    place = get_flow(flow_name).first(intake.payload)
    kind = routes.kind_of(place, priority, intake.payload, resumed=False)
    if kind not in fits:
        routes.check_fits(kind)
        fits.add(kind)
    now = timezone.now()
    return Execution(
        flow=flow_name,
        key=intake.key,
        phase=place.phase.name,
        step=place.step.name,
        priority=priority,
        route_id=routes.route_id(kind),
        payload=intake.payload,
        run_after=run_after or now,
        created_at=now,
        attempts_counted_since=now,
    )


def _insert_new(rows: Sequence[Execution]) -> list[str]:
    """Insert those whose key is not there; returns their keys. One statement, so races are settled
    by the unique constraint and the count is exact."""
    fields = [f for f in Execution._meta.concrete_fields if not f.primary_key]
    columns = ", ".join(connection.ops.quote_name(str(f.column)) for f in fields)
    values = "(" + ", ".join(["%s"] * len(fields)) + ")"
    statement = (
        f"INSERT INTO {Execution._meta.db_table} ({columns}) "
        f"VALUES {', '.join([values] * len(rows))} "
        "ON CONFLICT (flow, key) DO NOTHING RETURNING key"
    )
    parameters = [
        f.get_db_prep_save(f.pre_save(row, True), connection) for row in rows for f in fields
    ]
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return [key for (key,) in cursor.fetchall()]
