"""A flow with a rule that never ends, of one of its executions.

A worker started with `-I tests.acceptance.hanging_rules` serves it; run as a program, it enqueues its work.
"""

from __future__ import annotations

import time

if __name__ == "__main__":
    import django

    django.setup()

from celery import shared_task

from queuemgr import (
    Context,
    Done,
    Flow,
    LeasedTask,
    NewExecution,
    Phase,
    Step,
    Work,
    enqueue_many,
    register_flow,
)


@shared_task(base=LeasedTask, name="ruled.first")
def first(work: Work) -> Done:
    return Done({"after_first": True})


@shared_task(base=LeasedTask, name="ruled.second")
def second(work: Work) -> None:
    """Nothing."""


def needed(context: Context) -> bool:
    """Asked in the slot that ran the first step."""
    if context.get("hangs") and context.get("after_first"):
        time.sleep(600)
    return True


STEPS = (Step("first", "ruled.first"), Step("second", "ruled.second", needed=needed))
register_flow(Flow("ruled", (Phase("prep", 0, "waiting", "running", STEPS),)))

if __name__ == "__main__":
    keys = ("hangs", "good-1", "good-2")
    enqueue_many("ruled", [NewExecution(key, {"hangs": key == "hangs"}) for key in keys])
