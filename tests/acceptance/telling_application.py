"""An application whose steps tell every secret they can find, in all the ways a step can fail.

A worker started with `-I tests.acceptance.telling_application` serves its flow; run as a program, it enqueues
so many executions.
"""

from __future__ import annotations

import sys
from typing import Any

if __name__ == "__main__":
    import django

    django.setup()

from celery import shared_task

from queuemgr import Flow, LeasedTask, NewExecution, Phase, Step, Work, enqueue_many, register_flow
from tests.acceptance import telling_steps

FLOW = "telling"


@shared_task(base=LeasedTask, name="telling.tell")
def tell(work: Work) -> Any:
    return telling_steps.tell(work)


register_flow(Flow(FLOW, (Phase("prep", 0, "waiting", "running", (Step("tell", "telling.tell"),)),)))

if __name__ == "__main__":
    executions = [NewExecution(f"tell-{number}", {"number": number}) for number in range(int(sys.argv[1]))]
    enqueue_many(FLOW, executions)
