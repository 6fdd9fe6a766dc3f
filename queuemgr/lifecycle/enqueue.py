"""Inserts executions first and dispatches on commit: no message exists before its execution does.

The same key twice is one execution, by the database's unique constraint, in bulk and under races.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from django.utils import timezone

from queuemgr.base import transaction
from queuemgr.base.after_commit import after_commit
from queuemgr.base.errors import BadInput, QueueFull
from queuemgr.base.safe_text import excerpt
from queuemgr.flows import callbacks, payload_validation
from queuemgr.flows.flow import NORMAL, PRIORITIES, PRIORITY_NAMES, Flow, NewExecution, get_flow
from queuemgr.flows.unique import STATES, Unique, UniqueKey
from queuemgr.lifecycle import execution_signals, tracing, uniqueness
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import Execution
from queuemgr.scheduling import backpressure, routes, wakeups
from queuemgr.scheduling.claims import RouteKind
from queuemgr.scheduling.step_rules import first_step

ROWS_PER_STATEMENT = 500
MAX_KEY = payload_validation.MAX_KEY

MAX_HORIZON = timedelta(days=3660)
"""How far ahead a time may be set: one further off is mistyped."""


@dataclass(frozen=True, slots=True)
class Enqueued:
    """How many executions were inserted, and how many keys already existed.

    `outside_batch` counts those of the latter that are not members of the batch they were to be added to.
    `instead` has, by the key that was given, the key of the execution which has the same unique key.
    """

    new: int = 0
    already: int = 0
    new_keys: tuple[str, ...] = field(default=(), repr=False)
    outside_batch: int = 0
    instead: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        """As `3 new, 2 already there, 1 of them outside this batch`."""
        outside = f", {self.outside_batch} of them outside this batch" if self.outside_batch else ""
        return f"{self.new} new, {self.already} already there{outside}"

    def __add__(self, other: Enqueued) -> Enqueued:
        return Enqueued(
            self.new + other.new,
            self.already + other.already,
            self.new_keys + other.new_keys,
            self.outside_batch + other.outside_batch,
            {**self.instead, **other.instead},
        )


Rows = Sequence[Execution]


def priority_of(name: str) -> int:
    """The rank of a priority's name; raises `BadInput` naming those there are."""
    try:
        return PRIORITIES[name]
    except (KeyError, TypeError):  # JSON has lists, too
        raise BadInput(f"priority {excerpt(name)} is not one of {', '.join(PRIORITIES)}") from None


def check_rank(priority: int) -> None:
    """Raise `BadInput` for a rank that is no priority: in a row it would make every dispatch fail."""
    if not isinstance(priority, int) or priority not in PRIORITY_NAMES:
        ranks = ", ".join(f"{name} ({rank})" for name, rank in PRIORITIES.items())
        raise BadInput(f"priority {priority} is not one of {ranks}")


def check_horizon(what: str, when: datetime) -> None:
    """Raise `BadInput` for a time more than ten years ahead, and for one that is none to a database."""
    if not isinstance(when, datetime) or when.utcoffset() is None:
        raise BadInput(f"{what} {when} is not a time with a time zone")
    try:
        ahead = when.astimezone(UTC) - timezone.now()
    except OverflowError:
        raise BadInput(f"{what} {when} is out of the range of times") from None
    if ahead > MAX_HORIZON:
        raise BadInput(f"{what} {when:%Y-%m-%d} is more than ten years ahead: give an earlier time")


def enqueue(
    flow: str,
    key: str,
    payload: Mapping[str, Any] | None = None,
    *,
    priority: int = NORMAL,
    run_after: datetime | None = None,
    unique: Unique | None = None,
) -> bool:
    """Insert one execution; False if the key already exists, which changes nothing, or one that has the same
    unique key.

    Raises `UnknownFlow`, `BadInput` (a key or payload that a row cannot hold, no such priority), `NeverFits`
    and `QueueFull`.
    """
    given = {} if payload is None else payload
    intake = NewExecution(key, given, unique=unique)  # type: ignore[arg-type]  # validated there
    return enqueue_many(flow, [intake], priority=priority, run_after=run_after).new == 1


def enqueue_many(
    flow: str,
    intakes: Iterable[NewExecution],
    *,
    priority: int = NORMAL,
    run_after: datetime | None = None,
    enter: Callable[[Rows], Enqueued] | None = None,
    also_under: str = "",
) -> Enqueued:
    """Insert an execution for every new key, a few hundred to a transaction.

    `enter` inserts some of them, where that takes more than `insert`; `also_under` is a key that they run
    under beside those of their steps. What was
    inserted before an error stays, and `QueueFull` says how many were; nothing is dispatched inside the
    caller's transaction.
    """
    check_rank(priority)
    if run_after is not None:
        check_horizon("run_after", run_after)
    total, fits = Enqueued(), set[RouteKind]()
    iterator = iter(intakes)
    while some := list(islice(iterator, ROWS_PER_STATEMENT)):
        made = [new_execution(flow, intake, priority, run_after) for intake in some]
        rows = on_routes([each._replace(kind=each.kind.also_under(also_under)) for each in made], fits)
        try:
            enter_them = partial(enter or insert, rows)
            total += atomically(partial(_stored, get_flow(flow), some, priority, enter_them))
        except QueueFull as full:
            raise full.after(total.new, total.already) from None
    return total


def _stored(
    flow: Flow, new: Sequence[NewExecution], priority: int, enter: Callable[[], Enqueued]
) -> Enqueued:
    """Enter these, and what their flow stores of them: also of those that a full queue refuses, which a
    backfill enqueues later, with their priorities."""
    if flow.store_items is not None:
        ranks = [_rank(each, priority) for each in new]
        stated = [None if rank == NORMAL else rank for rank in ranks]
        callbacks.store_items(flow, [replace(e, priority=rank) for e, rank in zip(new, stated, strict=True)])
    return enter()


def _rank(new: NewExecution, priority: int) -> int:
    """That of its own, else this one."""
    if new.priority is None:
        return priority
    check_rank(new.priority)
    return new.priority


Done = TypeVar("Done")


def atomically(enter: Callable[[], Done]) -> Done:
    """Enqueue all of it, or as much as a full queue takes; any other error rolls everything back.

    All or nothing: what `enter` stores and the executions of it become visible together.
    """
    with transaction.atomic():
        try:
            return enter()
        except QueueFull as error:
            full = error
    raise full


def insert(rows: Rows) -> Enqueued:
    """Insert those of these rows that fit their queues and wake their routes, in the caller's transaction.

    Raises `QueueFull` after that when a row does not fit: see `atomically`.
    """
    apart, into = uniqueness.merge(rows)
    with tracing.enqueuing(rows[0].flow, apart) as enqueuing:
        taken, full = backpressure.admit_new(apart)
        stored = uniqueness.insert(taken) if taken else uniqueness.Stored()
        enqueuing.stored(stored.new)
    execution_signals.enqueued(taken, stored.new)
    wakeups.post(stored.routes)
    if stored.routes:
        after_commit(dispatch)
    instead = {**stored.instead, **{key: stored.instead.get(kept, kept) for key, kept in into.items()}}
    new, already = len(stored.new), len(taken) - len(stored.new) + len(rows) - len(apart)
    if full:
        raise full.after(new, already)
    return Enqueued(new, already, tuple(stored.new), instead=instead)


def _validated(flow: str, intake: NewExecution) -> dict[str, Any]:
    try:
        return payload_validation.validate(intake.payload)
    except BadInput as error:
        raise BadInput(f"{flow}/{intake.key[:60]!r}: {error}") from None


class Unrouted(NamedTuple):
    """The row of a new execution, and the kind of route it is to wait on."""

    row: Execution
    kind: RouteKind


def on_routes(made: Sequence[Unrouted], fits: set[RouteKind] | None = None) -> list[Execution]:
    """These rows, each on its route; `fits` caches the kinds of routes found to fit their limits.

    Raises `NeverFits`.
    """
    fits = set() if fits is None else fits
    for _, kind in made:
        if kind not in fits:
            routes.check_fits(kind)
            fits.add(kind)
    ids = routes.ids_of(kind for _, kind in made)
    for row, kind in made:
        row.route_id = ids[kind]
    return [row for row, _ in made]


def new_execution(
    flow_name: str, intake: NewExecution, priority: int = NORMAL, run_after: datetime | None = None
) -> Unrouted:
    """A new execution, not inserted yet. Raises `UnknownFlow` and `BadInput`."""
    key, payload = payload_validation.check_key(intake.key), _validated(flow_name, intake)
    ref, priority = first_step(flow_name, payload), _rank(intake, priority)
    kind = routes.kind_of(ref, priority, payload, resumed=False)
    now = timezone.now()
    row = Execution(
        flow=flow_name,
        key=key,
        phase=ref.phase.name,
        step=ref.step.name,
        priority=priority,
        payload=payload,
        run_after=run_after or now,
        created_at=now,
        attempts_counted_since=now,
    )
    if unique := _unique_key(get_flow(flow_name), intake, payload):
        _make_unique(row, unique, run_after)
    return Unrouted(row, kind)


def _unique_key(flow: Flow, intake: NewExecution, payload: dict[str, Any]) -> UniqueKey | None:
    rule = intake.unique or flow.unique
    return rule.of(payload) if isinstance(rule, Unique | UniqueKey) else rule and rule(payload)


def _make_unique(row: Execution, unique: UniqueKey, run_after: datetime | None) -> None:
    row.unique, row.unique_key = unique, unique.text
    row.unique_states, row.unique_window = STATES[unique.rule.states], unique.rule.window
    if unique.rule.pause is None:
        return
    if run_after is not None:
        raise BadInput(f"{row.key[:60]!r}: what is debounced runs once it has been quiet, at no other time")
    row.run_after = row.created_at + unique.rule.pause.each
