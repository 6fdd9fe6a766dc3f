"""An application of asynchronous steps, which record what runs at once, on command of their payloads.

A worker started with `-I tests.acceptance.async_application` serves its flow; run as a program, it enqueues
so many executions that behave in one way.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    import django

    django.setup()

from celery import shared_task
from django.db import connection

from queuemgr import (
    Done,
    Flow,
    LeasedTask,
    NewExecution,
    Phase,
    QueuedTask,
    Step,
    StepFailed,
    Work,
    current_work,
    enqueue_many,
    queued,
    register_flow,
)
from queuemgr.models import Execution

FLOW, HURRIED, PLAIN = "asynchronous", "hurried", "synchronous"

seen: ContextVar[str] = ContextVar("seen", default="")
at_once = 0


class Odd(BaseException):
    """Not an `Exception`."""


def note(key: str, **values: Any) -> None:
    """One line of the file that all steps write, in one write."""
    line = json.dumps({"key": key, "pid": os.getpid(), **values}) + "\n"
    with Path(os.environ["SLUICE_DATA_DIR"], "noted").open("ab", buffering=0) as file:
        file.write(line.encode())


async def _sleep(work: Work) -> None:
    """For so long, and until so many run at once."""
    global at_once
    at_once += 1
    note(work.key, at_once=at_once)
    try:
        await asyncio.sleep(work.grant.payload["seconds"])
    finally:
        at_once -= 1


async def _keep_context(work: Work) -> Done:
    """Set a variable, and read it again after others have set theirs."""
    before = seen.get()
    seen.set(work.key)
    await asyncio.sleep(0.2)
    same = (before, seen.get(), current_work().key) == ("", work.key, work.key)
    nested = await asyncio.gather(*(_read(work.key) for _ in range(3)))
    return Done(result={"kept": same and all(nested)})


async def _read(key: str) -> bool:
    await asyncio.sleep(0)
    return seen.get() == key == current_work().key


async def _orm(work: Work) -> Done:
    """Read by the asynchronous ORM, and what the step's own transaction says of its lease."""
    own = await Execution.objects.filter(key=work.key).aget()
    keys = [row.key async for row in Execution.objects.filter(key=work.key)]
    await work.aspend(requests=0)
    await work.araise_if_lost()
    refused = False
    try:
        connection.ensure_connection()
        with connection.cursor():
            pass
    except Exception as error:
        refused = type(error).__name__ == "SynchronousOnlyOperation"
    return Done(result={"own": own.key == work.key and keys == [work.key], "refused": refused})


async def _swallow(work: Work) -> None:
    """End for no cancellation."""
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            note(work.key, swallowed=True)


async def _leave_tasks(work: Work) -> None:
    async def stay() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            note(work.key, ended=True)

    tasks = [asyncio.create_task(stay()) for _ in range(3)]
    await asyncio.sleep(0)
    assert tasks


async def _block(work: Work) -> None:
    time.sleep(work.grant.payload["seconds"])


async def _exit_in_a_task(work: Work) -> None:
    async def leave() -> None:
        sys.exit(3)

    await asyncio.create_task(leave())


async def _interrupt(work: Work) -> None:
    raise KeyboardInterrupt


async def _cancelled(work: Work) -> None:
    raise asyncio.CancelledError


async def _exit(work: Work) -> None:
    sys.exit(3)


async def _odd(work: Work) -> None:
    raise Odd("odd")


async def _fail(work: Work) -> None:
    raise StepFailed("told_to", "as it was told to")


async def _cancel_itself(work: Work) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


WAYS: dict[str, Callable[[Work], Awaitable[Any]]] = {
    "sleep": _sleep,
    "context": _keep_context,
    "orm": _orm,
    "swallow": _swallow,
    "tasks": _leave_tasks,
    "block": _block,
    "exit-task": _exit_in_a_task,
    "interrupt": _interrupt,
    "cancelled": _cancelled,
    "exit": _exit,
    "odd": _odd,
    "fail": _fail,
    "cancel-itself": _cancel_itself,
}


@shared_task(base=LeasedTask, name="asynchronous.act")
async def act(work: Work) -> Any:
    return await WAYS[work.grant.payload["way"]](work)


@shared_task(base=LeasedTask, name="synchronous.act")
def act_in_a_thread(work: Work) -> None:
    note(work.key, thread=True)
    work.signal.sleep(work.grant.payload["seconds"])


@queued(name="asynchronous.add", phase="prep")
async def add(one: int, two: int) -> int:
    await asyncio.sleep(0.2)
    return one + two


@shared_task(base=QueuedTask, bind=True, name="asynchronous.bound", phase="prep", ignore_result=False)
async def bound(self: QueuedTask, number: int) -> dict[str, bool]:
    """Whether its request is its own, while others run."""
    before = self.request.id
    await asyncio.sleep(0.2)
    same = before == self.request.id == current_work().key and self.request.args == (number,)
    return {"same": same}


for name, step in (
    (FLOW, Step("act", "asynchronous.act", is_async=True)),
    (HURRIED, Step("act", "asynchronous.act", is_async=True, soft_time_limit=1, time_limit=2)),
    (PLAIN, Step("act", "synchronous.act")),
):
    register_flow(Flow(name, (Phase("prep", 0, "waiting", "running", (step,)),)))


def main(flow: str, prefix: str, count: str, ways: str, seconds: str) -> None:
    if flow == "calls":
        for number in range(int(count)):
            add.using(key=f"add-{number}").enqueue(number, two=1)
            bound.apply_async((number,), task_id=f"bound-{number}")
        return
    for way, name in zip(ways.split(","), prefix.split(","), strict=True):
        payload = {"way": way, "seconds": float(seconds)}
        enqueue_many(flow, [NewExecution(f"{name}-{number}", payload) for number in range(int(count))])


if __name__ == "__main__":
    main(*sys.argv[1:])
