"""Cancellations that are no abort, inside a callback or from outside: none makes a run hang."""

from __future__ import annotations

import asyncio

import pytest

from queuemgr.steptools.lanes import Lane
from queuemgr.steptools.ordered_map import Finished, run_with_queue

LANE = Lane("test", 4, 16)

LONG = 5.0
"""Seconds after which a run that should have ended at once counts as hanging."""


async def cancelled_wait(_finished: Finished[int, int]) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def fails(item: int) -> int:
    raise ValueError(item)


async def same(item: int) -> int:
    return item


@pytest.mark.asyncio
async def test_an_on_error_that_awaits_something_cancelled_is_noted_and_nothing_hangs() -> None:
    with pytest.raises(ValueError, match=r"^0") as caught:
        async with asyncio.timeout(LONG):
            await run_with_queue(LANE, range(8), fails, on_error=cancelled_wait)
    assert any("cancelled" in note for note in caught.value.__notes__)


@pytest.mark.asyncio
async def test_an_on_result_that_awaits_something_cancelled_makes_the_item_a_failure() -> None:
    with pytest.raises(RuntimeError, match="a callback awaited something that was cancelled"):
        async with asyncio.timeout(LONG):
            await run_with_queue(LANE, range(8), same, on_result=cancelled_wait)


@pytest.mark.asyncio
async def test_an_attempt_cancelled_from_outside_after_a_failure_hangs_nothing() -> None:
    others: list[asyncio.Task[object] | None] = []

    async def worker(item: int) -> None:
        if item == 0:
            await asyncio.sleep(0.01)
            raise ValueError(item)
        others.append(asyncio.current_task())
        await asyncio.sleep(60)

    def cancel_another(_finished: Finished[int, None]) -> None:
        assert others[0] is not None
        others[0].cancel()

    with pytest.raises(RuntimeError, match="cancelled from outside"):
        async with asyncio.timeout(LONG):
            await run_with_queue(LANE, range(4), worker, on_error=cancel_another)
