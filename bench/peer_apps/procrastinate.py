"""Procrastinate: `enqueue COUNT SECONDS TRACE`, then `work SLOTS`."""

from __future__ import annotations

import asyncio
import os

import procrastinate

from bench.peer_apps import marks

AT_ONCE = 500

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["DATABASE_URL"]))


@app.task(name="work")
async def work(seconds: float, trace: str, last: int) -> None:
    await marks.work(seconds, trace, last)


async def enqueue(count: int, seconds: float, trace: str) -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for start in range(0, count, AT_ONCE):
            jobs = [{"seconds": seconds, "trace": trace, "last": count}] * min(AT_ONCE, count - start)
            await app.configure_task("work").batch_defer_async(*jobs)


async def run(slots: int) -> None:
    async with app.open_async():
        await app.run_worker_async(concurrency=slots, delete_jobs="always")


def main(arguments: list[str]) -> None:
    if arguments[0] == "enqueue":
        asyncio.run(enqueue(int(arguments[1]), float(arguments[2]), arguments[3]))
    else:
        asyncio.run(run(int(arguments[1])))
