"""`run_with_queue`: order, failing fast or doing its best, callbacks, retries, abort."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from queuemgr.abort import AbortSignal
from queuemgr.errors import Aborted
from queuemgr.lanes import Lane
from queuemgr.window import Finished, ItemsFailed, run_with_queue

pytestmark = pytest.mark.asyncio

LANE = Lane("test", 4, 16)


def at_once(_error: Exception, _attempt: int) -> float:
    return 0.0


async def odd_fails(item: int) -> int:
    await asyncio.sleep(0)
    if item % 2:
        raise ValueError(item)
    return item * 10


async def test_results_stand_in_the_order_of_the_items_whatever_ends_first():
    async def later_first(item: int) -> int:
        await asyncio.sleep(0.02 - item / 1000)
        return item * 10

    assert await run_with_queue(LANE, range(12), later_first) == [n * 10 for n in range(12)]


async def test_no_more_than_the_lane_allows_run_at_once():
    running = most = 0

    async def worker(_item: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    await run_with_queue(LANE, range(40), worker)
    assert most == 4


async def test_the_first_failure_stops_starts_lets_what_runs_end_and_is_raised():
    started, ended = [], []

    async def worker(item: int) -> int:
        started.append(item)
        await asyncio.sleep(0 if item == 1 else 0.02)
        if item == 1:
            raise ValueError("first")
        if item == 2:
            raise KeyError("second")
        ended.append(item)
        return item

    with pytest.raises(ValueError, match="first"):
        await run_with_queue(LANE, count(), worker)
    assert started == [0, 1, 2, 3]
    assert ended == [0, 3]


async def test_best_effort_runs_everything_and_raises_what_failed_with_the_results():
    seen: list[Finished[int, int]] = []
    failed: list[Finished[int, int]] = []
    with pytest.raises(ItemsFailed, match="3 of 6 items failed") as caught:
        await run_with_queue(
            LANE, range(6), odd_fails, best_effort=True,
            on_result=seen.append, on_error=failed.append,
        )  # fmt: skip
    assert [error.args for error in caught.value.exceptions] == [(1,), (3,), (5,)]
    assert caught.value.results == [0, None, 20, None, 40, None]
    assert sorted(one.seq for one in seen) == [0, 2, 4]
    assert sorted(one.seq for one in failed) == [1, 3, 5]


async def test_a_failure_is_tried_again_as_often_as_asked_and_no_more():
    tries: dict[int, int] = {}

    async def worker(item: int) -> int:
        tries[item] = tries.get(item, 0) + 1
        if tries[item] <= item:
            raise ValueError(item)
        return tries[item]

    with pytest.raises(ItemsFailed) as caught:
        await run_with_queue(LANE, range(4), worker, best_effort=True, retries=2, backoff=at_once)
    assert caught.value.results == [1, 2, 3, None]
    assert tries == {0: 1, 1: 2, 2: 3, 3: 3}


async def test_an_abort_from_the_loop_cancels_what_runs_and_is_raised_even_at_best_effort():
    signal, cancelled = AbortSignal(), []

    async def worker(item: int) -> None:
        try:
            await asyncio.sleep(0.001 if item < 3 else 60)
        except asyncio.CancelledError:
            cancelled.append(item)
            raise

    def stop(finished: Finished[int, None]) -> None:
        if finished.seq == 2:
            asyncio.get_running_loop().call_later(0.01, signal.abort, "told to")

    with pytest.raises(Aborted, match="told to"):
        await run_with_queue(LANE, count(), worker, best_effort=True, on_result=stop, signal=signal)
    assert sorted(cancelled) == [3, 4, 5, 6]
    assert len(asyncio.all_tasks()) == 1
