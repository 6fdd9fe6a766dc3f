"""pgqueuer: `enqueue COUNT SECONDS TRACE`, then `work SLOTS`."""

from __future__ import annotations

import asyncio
import json
import os

import asyncpg
import uvloop
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job

from bench.peer_apps import marks

AT_ONCE = 500
BATCH = 10
"""Its default, and half the slots where there are fewer than twice as many, as it asks for."""


async def connect() -> AsyncpgDriver:
    return AsyncpgDriver(await asyncpg.connect(os.environ["DATABASE_URL"]))


async def enqueue(count: int, seconds: float, trace: str) -> None:
    queries = Queries(await connect())
    await queries.install()
    payload = json.dumps([seconds, trace, count]).encode()
    for start in range(0, count, AT_ONCE):
        some = min(AT_ONCE, count - start)
        await queries.enqueue(["work"] * some, [payload] * some, [0] * some)


async def run(slots: int) -> None:
    queue = PgQueuer(await connect())

    @queue.entrypoint("work")
    async def work(job: Job) -> None:
        await marks.work(*json.loads(job.payload or b"[]"))

    await queue.run(batch_size=min(BATCH, slots // 2), max_concurrent_tasks=slots)


def main(arguments: list[str]) -> None:
    if arguments[0] == "enqueue":
        asyncio.run(enqueue(int(arguments[1]), float(arguments[2]), arguments[3]))
    else:
        uvloop.run(run(int(arguments[1])))
