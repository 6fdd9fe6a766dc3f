"""An application that tells every secret it can find: its steps in all the ways a step can end, its rules,
callbacks, checks and jobs by failing.

A worker started with `-I tests.acceptance.telling_application` serves its flow; run as a program, it enqueues
so many executions, or is `manage.py` with this application in it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

if __name__ == "__main__":
    import django

    django.setup()

from celery import shared_task
from django.dispatch import receiver

from queuemgr import (
    CheckResult,
    Flow,
    LeasedTask,
    NewExecution,
    Phase,
    Step,
    Work,
    enqueue_many,
    register_flow,
    signals,
)
from queuemgr.flows.call import Call
from queuemgr.flows.flow import Link
from queuemgr.models import Batch
from queuemgr.operations import batches
from queuemgr.schedules import Schedule, every, register_schedule
from tests.acceptance import telling_steps
from tests.acceptance.telling_steps import JOB, fail

FLOW, REFUSING = "telling", "refusing"
BATCH, SCHEDULES = "some", ("told", "refused")


@shared_task(base=LeasedTask, name="telling.tell")
def tell(work: Work) -> Any:
    return telling_steps.tell(work)


@shared_task(name=JOB, ignore_result=True)
def job() -> Any:
    """A plain task of Celery's that somebody has beside the queue; Celery would store its result as it is."""
    return fail()


def checks() -> Iterator[CheckResult]:
    for number in range(0, 40, 4):
        yield CheckResult("bad", telling_steps.text_of(number), telling_steps.text_of(number + 1))
    fail()


def artifacts(key: str) -> list[Link]:
    return [Link(telling_steps.text_of(number), "https://a.example/") for number in range(4)]


def export(keys: Any) -> dict[str, dict[str, Any]]:
    return {key: {"told": telling_steps.text_of(number)} for number, key in enumerate(keys)}


STEPS = (Step("tell", "telling.tell"), Step("never", "telling.tell", needed=telling_steps.rule))

register_flow(
    Flow(
        FLOW, (Phase("prep", 0, "waiting", "running", STEPS),), parse_item=fail, backfill=fail, cleanup=fail,
        link=fail, artifacts=artifacts, export=export, checks=checks,
    )
)  # fmt: skip


register_flow(
    Flow(REFUSING, (Phase("prep", 0, "waiting", "running", (Step("never", "telling.tell", key=fail),)),))
)
register_schedule(Schedule(SCHEDULES[0], FLOW, every(seconds=5), payload={"number": 3}))
register_schedule(Schedule(SCHEDULES[1], REFUSING, every(seconds=2)))


@receiver([signals.execution_failed, signals.execution_started, signals.breaker_opened])
def hear(event: Any, **_: Any) -> None:
    fail()


def tell_a_batch() -> None:
    """Members that fail, and a callback that fails after them."""
    called = Call(FLOW, {"number": 3}, "called")
    batch: Batch = batches.open_batch(BATCH, FLOW, None, callbacks={"on_failure": called})
    batches.add(batch, [NewExecution(f"member-{number}", {"number": 3}) for number in range(2)])
    batches.close(batch, None)


def main(first: str, *others: str) -> None:
    if first.isdigit():
        told = [NewExecution(f"tell-{number}", {"number": number}) for number in range(int(first))]
        enqueue_many(FLOW, told)
        tell_a_batch()
    else:
        from django.core.management import execute_from_command_line

        execute_from_command_line(["manage.py", first, *others])


if __name__ == "__main__":
    main(*sys.argv[1:])
