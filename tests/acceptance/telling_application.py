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
)
from queuemgr.flows.flow import Link
from tests.acceptance import telling_steps
from tests.acceptance.telling_steps import JOB, fail

FLOW = "telling"


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


def main(first: str, *others: str) -> None:
    if first.isdigit():
        every = [NewExecution(f"tell-{number}", {"number": number}) for number in range(int(first))]
        enqueue_many(FLOW, every)
    else:
        from django.core.management import execute_from_command_line

        execute_from_command_line(["manage.py", first, *others])


if __name__ == "__main__":
    main(*sys.argv[1:])
