"""An asynchronous step that sleeps, for `bench.async_slots`.

A worker started with `-I bench.async_work` serves it; run as a program it enqueues so many."""

from __future__ import annotations

import asyncio
import sys

if __name__ == "__main__":
    import django

    django.setup()

from celery import shared_task

from queuemgr import Flow, LeasedTask, NewExecution, Phase, Step, Work, enqueue_many, register_flow


@shared_task(base=LeasedTask, name="bench.sleep")
async def sleep(work: Work) -> None:
    await asyncio.sleep(work.grant.payload["seconds"])


STEP = Step("sleep", "bench.sleep", is_async=True)
register_flow(Flow("sleep", (Phase("prep", 0, "waiting", "running", (STEP,)),)))

if __name__ == "__main__":
    count, seconds = int(sys.argv[1]), float(sys.argv[2])
    enqueue_many("sleep", (NewExecution(f"sleep-{n}", {"seconds": seconds}) for n in range(count)))
