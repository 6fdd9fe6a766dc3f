"""A script: runs of the window that end in every way, dropped and collected; prints `all ended`.

Whatever is looked at by nobody (an exception, a task, a coroutine) goes to standard error.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import suppress
from itertools import count

from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.steptools.lanes import Lane
from queuemgr.steptools.ordered_map import in_order, run_with_queue

LANE = Lane("test", 4, 16)


async def sometimes(item: int) -> int:
    await asyncio.sleep(0.001 * (item % 3))
    if item % 4 == 3:
        raise ValueError(item)
    return item


def soon(_error: Exception, _attempt: int) -> float:
    return 0.005


async def abort_from_a_thread() -> None:
    signal = AbortSignal()
    threading.Timer(0.02, signal.abort, ["stop"]).start()
    await run_with_queue(
        LANE, count(), sometimes, best_effort=True, retries=9, backoff=soon, signal=signal
    )


async def leave_without_closing() -> None:
    async for one in in_order(LANE, count(), sometimes, window=8, retries=3, backoff=soon):
        if one.seq == 5:
            return


async def endings() -> None:
    for work in (
        run_with_queue(LANE, range(50), sometimes),
        run_with_queue(LANE, range(50), sometimes, best_effort=True, retries=1, backoff=soon),
        asyncio.wait_for(run_with_queue(LANE, count(0, 4), sometimes), 0.02),
        abort_from_a_thread(),
        leave_without_closing(),
    ):
        with suppress(Exception):
            await work
        del work
        gc.collect()
        await asyncio.sleep(0.02)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, left


asyncio.run(endings())
gc.collect()
print("all ended")
