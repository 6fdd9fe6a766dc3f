"""The flow whose executions send failed work to queues that are not ours: one step, which sends one message.

It runs in the last phase of the application, so it needs no workers of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from celery import current_app, shared_task

from queuemgr.base.errors import StepFailed
from queuemgr.flows.flow import HAND_OVER, Flow, Phase, Step
from queuemgr.flows.outcomes import Done
from queuemgr.flows.retry_policy import Policy, no_retry
from queuemgr.lifecycle.publish import broker_errors
from queuemgr.worker.leased_task import LeasedTask
from queuemgr.worker.work import Work

NAME, TASK = "send", "queuemgr.hand_over"
AWAY, MALFORMED = "handover_unsent", "handover_malformed"

ERROR_KINDS: Mapping[str, Policy] = {
    AWAY: Policy(100, 5, 600, 5, "the broker took no message for a queue that is not ours"),
    MALFORMED: no_retry("an execution of queue.handover that says no queue, task and arguments"),
}
NO_APPLICATION = (Phase("probe", rank=0, waiting="waiting", running="running", steps=()),)
"""Its phase where no other flow is registered."""


def hand_over_flow(phases: Sequence[Phase]) -> Flow:
    phase = (phases or NO_APPLICATION)[-1]
    return Flow(
        HAND_OVER,
        (replace(phase, steps=(Step(name=NAME, task=TASK),), max_running=0),),
        error_kinds=ERROR_KINDS,
    )


@shared_task(base=LeasedTask, name=TASK)
def send(work: Work) -> Done:
    """Send the message. Sent twice, where a worker died before it was noted, it has the same id."""
    inputs = work.inputs
    queue, task, kwargs = inputs.get("queue"), inputs.get("task"), inputs.get("kwargs")
    if not (isinstance(queue, str) and isinstance(task, str) and isinstance(kwargs, dict)):
        raise StepFailed(MALFORMED, "it needs a queue, a task and kwargs")
    try:
        _publish(task, kwargs, queue, work.key)
    except broker_errors() as error:
        raise StepFailed(AWAY, f"the broker does not answer: {type(error).__name__}") from error
    return Done(result={"queue": queue, "task": task, "id": work.key})


def _publish(task: str, kwargs: dict[str, Any], queue: str, message: str) -> None:
    with current_app.producer_or_acquire(None) as producer:
        current_app.send_task(
            task, kwargs=kwargs, task_id=message, queue=queue, producer=producer, retry=False, argsrepr="()",
            kwargsrepr="{…}",
        )  # fmt: skip
