"""What a batch enqueues when it completes: declared when it is opened, with all that its flow's rules say.

So a callback that could never be enqueued is refused before there is a batch, and no rule of an application
is called when the batch completes, which is under the scheduler lock (`batch_completion`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from django.db import IntegrityError

from queuemgr.base import transaction
from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import excerpt
from queuemgr.flows import callbacks
from queuemgr.flows.call import Call
from queuemgr.flows.flow import NewExecution, get_flow
from queuemgr.lifecycle.enqueue import check_rank, new_execution, on_routes
from queuemgr.models import Batch, BatchCallback, BatchEvent, Execution


def declare(batch: Batch, calls: Mapping[str, Call]) -> Sequence[BatchCallback]:
    """Store these callbacks of a new batch, by `BatchEvent`, in the transaction that opens it. Also of a flow
    that is `Unique`: what a batch enqueues holds no unique key, and another that does keeps it from nothing.

    Raises `BadInput` and `NeverFits` for one that could not be enqueued.
    """
    return [_declare(batch, event, call) for event, call in calls.items()]


def _declare(batch: Batch, event: str, call: Call) -> BatchCallback:
    if event not in BatchEvent.values:
        raise BadInput(f"{excerpt(event)} is not one of {', '.join(BatchEvent.values)}")
    check_rank(call.priority)
    new = NewExecution(call.key or f"batch:{batch.pk}:{event}", dict(call.payload))
    [row] = on_routes([new_execution(call.flow, new, call.priority)])
    if Execution.objects.filter(flow=row.flow, key=row.key).exists():
        raise BadInput(f"{event}: there is {row.flow}/{row.key} already: give the callback another key")
    callbacks.store_items(get_flow(call.flow), [new])
    callback = BatchCallback(
        batch=batch, event=event, flow=row.flow, key=row.key, phase=row.phase, step=row.step,
        priority=row.priority, payload=row.payload, route=row.route,
    )  # fmt: skip
    with suppress(IntegrityError), transaction.atomic():
        callback.save()
        return callback
    raise BadInput(f"{event}: {row.flow}/{row.key} is the callback of another batch: give it another key")
