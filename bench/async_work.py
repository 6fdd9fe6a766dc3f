"""An asynchronous step that sleeps, for `bench.async_slots`: `-I bench.async_work` has a worker serve it."""

from __future__ import annotations

import asyncio

from celery import shared_task

from queuemgr import Flow, LeasedTask, Phase, Step, Work, register_flow


@shared_task(base=LeasedTask, name="bench.sleep")
async def sleep(work: Work) -> None:
    await asyncio.sleep(work.grant.payload["seconds"])


STEP = Step("sleep", "bench.sleep", is_async=True)
register_flow(Flow("sleep", (Phase("prep", 0, "waiting", "running", (STEP,)),)))
