"""Failed work handed over to a queue that is not ours, as plain Celery messages.

Each is an execution of a flow of our own, inserted in the transaction that skips the failure, which sends the
message and is retried while the broker is away: so none is sent of what is rolled back, and none is lost. Its
key, which is the id of the message's task, says of which failure it is: one failure is handed over to a queue
once, and a message that a broker took without an answer is sent again by the same id.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from uuid import NAMESPACE_URL, uuid5

from queuemgr.base import transaction
from queuemgr.base.errors import BadInput, NeverFits
from queuemgr.flows.flow import HAND_OVER, HOUSEKEEPING, PRIORITY_NAMES, NewExecution, all_phases
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import Execution, Queue
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from queuemgr.operations.enqueueing import audited_enqueue

NAME = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}")


def check_queue(name: str) -> None:
    """Raise `BadInput` for a name that no queue has, and for a queue of ours: its workers run leases only."""
    if not NAME.fullmatch(name):
        raise BadInput(f"queue {name[:60]!r}: a queue's name has 1 to 200 characters, and no spaces")
    ours = {HOUSEKEEPING, *(f"{phase}.{rank}" for phase in all_phases() for rank in PRIORITY_NAMES.values())}
    if name in ours or Queue.objects.filter(name=name).exists():
        raise BadInput(f"{name} is a queue of ours: hand over to a flow instead")


def message_id(failure: Execution, queue: str) -> str:
    """Of the message that hands this failure over: the same whenever it is made."""
    ended = failure.finished_at.isoformat() if failure.finished_at else ""
    return str(uuid5(NAMESPACE_URL, "\n".join((queue, failure.flow, failure.key, ended))))


def hand_over(failures: Sequence[Execution], queue: str, task: str, by: Actor) -> tuple[int, int, list[str]]:
    """Have a message sent for each of these, and skip them; `task` is the name of the task that is to run,
    empty: that of its flow. Returns how many are new, how many were there already, and why others were
    refused."""
    new, already, refused = 0, 0, list[str]()
    for failure in failures:
        what = {
            "queue": queue, "task": task or failure.flow, "of": str(failure),
            "kwargs": {name: value for name, value in failure.payload.items() if not name.startswith("@")},
        }  # fmt: skip
        message = NewExecution(message_id(failure, queue), what)
        try:
            with (
                transaction.atomic(),
                audited_enqueue(HAND_OVER, by, handed_over=str(failure), queue=queue) as counted,
            ):
                added = counted(enqueue_many(HAND_OVER, [message], priority=failure.priority)).new
                executions.skip([failure], by)
        except (BadInput, NeverFits) as error:
            refused.append(str(error))
        else:
            new, already = new + added, already + 1 - added
    return new, already, refused
