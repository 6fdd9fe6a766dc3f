"""A script: runs of an ordered map that end in every way; prints `all ended`.

Asyncio reports exceptions never retrieved, tasks destroyed and coroutines never awaited on standard error.
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
    await run_with_queue(LANE, count(), sometimes, best_effort=True, retries=9, backoff=soon, signal=signal)


async def leave_without_closing() -> None:
    async for one in in_order(LANE, count(), sometimes, window=8, retries=3, backoff=soon):
        if one.seq == 5:
            return


async def no_other_task() -> None:
    """Wait until every other task has ended; raises `TimeoutError` after a minute."""
    async with asyncio.timeout(60):
        while asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.sleep(0.005)


async def endings() -> None:
    # Development mode would complain of every callback that a busy machine makes slow.
    asyncio.get_running_loop().slow_callback_duration = 60
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
        await no_other_task()


asyncio.run(endings())
gc.collect()
print("all ended")
