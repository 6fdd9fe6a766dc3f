"""`in_order`: strictly in order, inside the window, at the reader's speed, and closed cleanly."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from itertools import count

import pytest

from queuemgr.lanes import Lane
from queuemgr.window import in_order

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
