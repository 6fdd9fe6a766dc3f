"""`in_order`: in order, inside the window, at the reader's speed, and closed cleanly."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from itertools import count

import psutil
import pytest

from queuemgr.base.errors import Aborted, BadInput
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.steptools.lanes import Lane
from queuemgr.steptools.ordered_map import in_order

pytestmark = pytest.mark.asyncio

LANE = Lane("test", 4, 16)


async def test_every_item_comes_once_in_order_failures_too():
    async def worker(item: int) -> int:
        await asyncio.sleep((7 - item % 7) / 1000)
        if item % 5 == 0:
            raise ValueError(item)
        return item

    got = [one async for one in in_order(LANE, range(30), worker, window=8)]
    assert [one.seq for one in got] == list(range(30))
    assert [one.seq for one in got if one.error] == [0, 5, 10, 15, 20, 25]


async def test_a_slow_reader_slows_the_source_to_the_window():
    taken = 0

    def source():
        nonlocal taken
        for item in count():
            taken += 1
            yield item

    async def worker(item: int) -> int:
        return item

    async with aclosing(in_order(LANE, source(), worker, window=6)) as results:
        async for one in results:
            await asyncio.sleep(0.003)
            assert taken <= one.seq + 1 + 6
            if one.seq == 20:
                break
    assert len(asyncio.all_tasks()) == 1


async def test_nothing_starts_before_the_first_result_is_requested_and_a_bad_window_is_refused():
    taken = iter(range(3))
    results = in_order(LANE, taken, echo, window=2)
    assert next(taken) == 0
    await results.aclose()
    with pytest.raises(BadInput, match="the window is 0"):
        in_order(LANE, range(3), echo, window=0)


async def echo(item: int) -> int:
    return item


async def test_leaving_early_cancels_what_runs_and_closes_the_source():
    closed, cancelled = [], []

    async def source() -> AsyncIterator[int]:
        try:
            for item in count():
                yield item
        finally:
            closed.append(True)

    async def worker(item: int) -> int:
        try:
            await asyncio.sleep(0 if item == 0 else 600)
        except asyncio.CancelledError:
            cancelled.append(item)
            raise
        return item

    async with aclosing(in_order(LANE, source(), worker, window=6)) as results:
        assert (await anext(results)).seq == 0
        await asyncio.sleep(0.01)
    assert (closed, sorted(cancelled)) == ([True], [1, 2, 3, 4])
    assert len(asyncio.all_tasks()) == 1


async def test_an_error_of_the_source_is_raised_after_the_results_before_it():
    def source() -> Iterator[int]:
        yield 0
        yield 1
        raise OSError("torn")

    got = []
    with pytest.raises(OSError, match="torn"):
        async for one in in_order(LANE, source(), echo, window=4):
            got.append(one.result)
    assert got == [0, 1]


async def test_an_oldest_item_waiting_for_a_retry_holds_the_window():
    started, tries = [], count()

    async def worker(item: int) -> int:
        started.append(item)
        if item == 0 and next(tries) < 2:
            raise ValueError
        return item

    async with aclosing(
        in_order(LANE, count(), worker, window=3, retries=2, backoff=lambda _e, _n: 0.05)
    ) as results:
        first = await anext(results)
    assert (first.attempts, first.result) == (3, 0)
    assert max(started) == 2


async def test_an_abort_from_a_thread_reaches_a_reader_that_waits():
    signal = AbortSignal()
    threading.Timer(0.05, signal.abort, ["from a thread"]).start()
    with pytest.raises(Aborted, match="from a thread"):
        async for _ in in_order(LANE, count(), lambda _item: asyncio.sleep(600), window=4, signal=signal):
            raise AssertionError("nothing can have ended")
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("items", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow_proof)])
async def test_a_million_items_take_no_more_memory_than_the_first_thousands(items: int):
    """One in a hundred fails, and one in a hundred is retried once."""
    used, process = {}, psutil.Process()

    async def worker(item: int) -> bytes:
        if item % 100 == 0:
            raise ValueError(item)
        return bytes(64)

    read = in_order(
        Lane("wide", 64, 256), iter(range(items)), worker, window=128, retries=1,
        backoff=lambda _e, _n: 0.0, retryable=lambda e: e.args[0] % 200 == 0,
    )  # fmt: skip
    async for one in read:
        if one.seq in (items // 20, items - 1):
            gc.collect()
            used[one.seq] = process.memory_info().rss
        if one.seq == items - items // 10:
            tracemalloc.start()
    grown, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20, f"{peak} bytes at once, {grown} at the end"
    assert used[items - 1] - used[items // 20] < 8 << 20
