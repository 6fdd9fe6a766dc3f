"""Failed work as lines of JSON: written out, put back after the cause is gone, and handed over to another
flow.

A line is about one failure of one execution, and payloads are masked in it. Taken where that failure is, it
retries the execution with the payload of the line, of which what was left masked keeps its value. Elsewhere
it is enqueued. Whatever has happened since, a line does nothing twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from queuemgr.base import transaction
from queuemgr.base.errors import BadInput, NeverFits
from queuemgr.base.redaction import masked
from queuemgr.base.safe_text import excerpt, json_problem
from queuemgr.flows.flow import HAND_OVER, PRIORITY_NAMES, NewExecution, get_flow
from queuemgr.flows.payload_validation import check_key, restore_masked, validate
from queuemgr.lifecycle import webhook_events
from queuemgr.lifecycle.enqueue import enqueue_many, priority_of
from queuemgr.models import Execution, State
from queuemgr.operations import executions, handed_over_messages, remote_work
from queuemgr.operations.controls import Actor
from queuemgr.operations.enqueueing import audited_enqueue
from queuemgr.reporting.filtering import executions_matching

CHUNK = 200
MOST = 100_000
"""Failures in one file, and in one call that hands over."""

MOST_CHARACTERS = 1_000_000
"""Of a line: a payload and an error fit many times."""


def failures(flow: str | None, kind: str | None) -> QuerySet[Execution]:
    """Failed executions, of this flow and with this error kind if they are given."""
    chosen = {"state": State.FAILED.value, "flow": flow, "error_kind": kind}
    return executions_matching({name: value for name, value in chosen.items() if value})


def exported(rows: QuerySet[Execution], most: int = MOST) -> Iterator[dict[str, Any]]:
    """A line's facts for each of these, in the order of their ids, a chunk at a time."""
    for some in _in_chunks(rows, most):
        for execution in some:
            yield {
                "flow": execution.flow,
                "key": execution.key,
                "phase": execution.phase,
                "step": execution.step,
                "priority": PRIORITY_NAMES[execution.priority],
                "payload": masked(execution.payload),
                "error_kind": execution.error_kind,
                "error": execution.error_message,
                "finished": execution.finished_at,
            }


@dataclass(frozen=True)
class Line:
    """A failure, as a line says it."""

    flow: str
    key: str
    payload: dict[str, Any]
    priority: int
    finished: datetime | None

    @classmethod
    def parse(cls, text: str) -> Line:
        """Raises `BadInput`."""
        if len(text) > MOST_CHARACTERS:
            raise BadInput(f"this line has {len(text):,} characters; {MOST_CHARACTERS:,} are read")
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadInput(json_problem(error)) from None
        if not isinstance(given, dict) or not isinstance(given.get("flow"), str):
            raise BadInput('this is no line of `queue failed export`: {"flow": …, "key": …, "payload": …}')
        return cls(
            given["flow"], check_key(given.get("key")), validate(given.get("payload")),
            priority_of(given.get("priority", "normal")), _moment(given.get("finished")),
        )  # fmt: skip


def _moment(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text is not None else None
    except (TypeError, ValueError):
        raise BadInput(f"finished {excerpt(text)} is no ISO 8601 time") from None


def take(line: Line, by: Actor) -> str:
    """Retry the failure of this line, or enqueue it where it is not known: `retried`, `new` or `unchanged`.

    Raises `BadInput` for what cannot be stored, for a mask without the value behind it, and for a new key of
    a flow that makes its keys itself; and what enqueueing raises.
    """
    flow = get_flow(line.flow)
    known = Execution.objects.filter(flow=line.flow, key=line.key).first()
    if known is not None:
        if known.state != State.FAILED or (line.finished and known.finished_at != line.finished):
            return "unchanged"
        payload = restore_masked(line.payload, known.payload)
        remote_work.refuse_local(line.flow, payload, known.payload)
        return "retried" if executions.retry_with_payload(known, payload, by) else "unchanged"
    if flow.parse_item is not None:
        raise BadInput(
            f"flow {line.flow} makes keys itself, and {line.key[:60]!r} is not there: enqueue its item"
        )
    new = NewExecution(line.key, restore_masked(line.payload, None))
    remote_work.refuse_local(line.flow, new.payload)
    with audited_enqueue(line.flow, by, priority=PRIORITY_NAMES[line.priority]) as counted:
        return "new" if counted(enqueue_many(line.flow, [new], priority=line.priority)).new else "unchanged"


@dataclass
class HandedOver:
    """How many failures another flow has now, how many keys it had already, and how many it would not take,
    with the reason of the first."""

    new: int = 0
    already: int = 0
    refused: int = 0
    why: str = ""


def hand_over(rows: QuerySet[Execution], to: str, by: Actor, most: int = MOST) -> HandedOver:
    """Enqueue the payloads of these failures in another flow, by their keys, and skip them here; a key that
    is there already stays. Each in one transaction: it is failed here or enqueued there.

    Raises `BadInput` for a flow that makes its keys itself or is theirs, and `QueueFull`, which leaves the
    rest.
    """
    if get_flow(to).parse_item is not None or to in (HAND_OVER, webhook_events.FLOW):
        raise BadInput(f"flow {to} makes keys and payloads itself: nothing can be handed over to it")
    done = HandedOver()
    for some in _in_chunks(rows.exclude(flow=to), most):
        _hand_over_some(some, to, by, done)
    return done


def hand_over_to_queue(
    rows: QuerySet[Execution], queue: str, task: str, by: Actor, most: int = MOST
) -> HandedOver:
    """Have a plain Celery message sent for each of these failures to a queue that is not ours: its payload as
    keyword arguments of this task (empty: of its flow's name). They are skipped here. Raises `BadInput` for a
    queue of ours, and `QueueFull`, which leaves the rest."""
    handed_over_messages.check_queue(queue)
    done, said = HandedOver(), _with_reason(by, f"handed over to queue {queue}")
    for some in _in_chunks(rows.exclude(flow=HAND_OVER), most):
        new, already, refused = handed_over_messages.hand_over(some, queue, task, said)
        done.new, done.already, done.refused = (
            done.new + new,
            done.already + already,
            done.refused + len(refused),
        )
        done.why = done.why or "".join(refused[:1])
    return done


def _in_chunks(rows: QuerySet[Execution], most: int) -> Iterator[list[Execution]]:
    """At most so many, in the order of their ids."""
    after, left = 0, most
    while left > 0 and (some := list(rows.filter(pk__gt=after).order_by("pk")[: min(CHUNK, left)])):
        after, left = some[-1].pk, left - len(some)
        yield some


def _hand_over_some(some: Sequence[Execution], to: str, by: Actor, done: HandedOver) -> None:
    for execution in some:
        try:
            with transaction.atomic(), audited_enqueue(to, by, handed_over=str(execution)) as counted:
                new = NewExecution(execution.key, execution.payload)
                added = counted(enqueue_many(to, [new], priority=execution.priority)).new
                executions.skip([execution], _with_reason(by, f"handed over to {to}"))
        except (BadInput, NeverFits) as error:
            done.refused, done.why = done.refused + 1, done.why or str(error)
        else:
            done.new, done.already = done.new + added, done.already + 1 - added


def _with_reason(by: Actor, said: str) -> Actor:
    return Actor(by.actor, by.source, f"{said}{f': {by.reason}' if by.reason else ''}", user_id=by.user_id)
