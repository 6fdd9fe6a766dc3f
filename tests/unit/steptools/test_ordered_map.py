"""`run_with_queue`: order, fail-fast and best effort, callbacks, retries, abort."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from queuemgr.base.errors import Aborted, BadInput, StepFailed
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.steptools.lanes import Lane
from queuemgr.steptools.map_runner import CANCEL_SECONDS, LAST_SECONDS
from queuemgr.steptools.ordered_map import Finished, ItemsFailed, exponential, run_with_queue

LANE = Lane("test", 4, 16)


def at_once(_error: Exception, _attempt: int) -> float:
    return 0.0


async def odd_fails(item: int) -> int:
    await asyncio.sleep(0)
    if item % 2:
        raise ValueError(item)
    return item * 10


@pytest.mark.asyncio
async def test_results_are_in_the_order_of_the_items_whatever_ends_first():
    async def later_first(item: int) -> int:
        await asyncio.sleep(0.02 - item / 1000)
        return item * 10

    assert await run_with_queue(LANE, range(12), later_first) == [n * 10 for n in range(12)]


@pytest.mark.asyncio
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


@pytest.mark.asyncio
async def test_the_first_failure_stops_starts_lets_running_items_finish_and_is_raised():
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


@pytest.mark.asyncio
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


@pytest.mark.asyncio
async def test_a_failure_is_retried_as_often_as_configured_and_no_more():
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


@pytest.mark.asyncio
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
            asyncio.get_running_loop().call_later(0.01, signal.abort, "stop now")

    with pytest.raises(Aborted, match="stop now"):
        await run_with_queue(LANE, count(), worker, best_effort=True, on_result=stop, signal=signal)
    assert sorted(cancelled) == [3, 4, 5, 6]
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.asyncio
async def test_an_abort_from_a_thread_ends_within_its_time_and_leaves_no_task():
    signal = AbortSignal()

    async def worker(_item: int) -> None:
        await asyncio.sleep(600)

    threading.Timer(0.05, signal.abort, ["from a thread"]).start()
    started = time.monotonic()
    with pytest.raises(Aborted, match="from a thread"):
        await run_with_queue(LANE, count(), worker, signal=signal)
    assert time.monotonic() - started < 15
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.asyncio
async def test_a_worker_that_ignores_its_cancellation_delays_an_abort_by_a_bounded_time():
    signal, release = AbortSignal(), asyncio.Event()

    async def refuses(_item: int) -> None:
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    asyncio.get_running_loop().call_later(0.01, signal.abort, "stop")
    started = time.monotonic()
    with pytest.raises(Aborted):
        await run_with_queue(LANE, range(1), refuses, signal=signal)
    assert CANCEL_SECONDS + LAST_SECONDS < time.monotonic() - started < 30
    release.set()


@pytest.mark.asyncio
async def test_an_abort_before_the_start_pulls_nothing_from_the_source():
    signal, taken = AbortSignal(), iter(range(3))
    signal.abort("before")
    with pytest.raises(Aborted):
        await run_with_queue(LANE, taken, odd_fails, signal=signal)
    assert next(taken) == 0


@pytest.mark.asyncio
async def test_an_error_in_on_result_makes_that_item_a_failure():
    failed: list[Finished[int, int]] = []

    async def on_result(finished: Finished[int, int]) -> None:
        if finished.seq == 2:
            raise KeyError("full disk")

    with pytest.raises(ItemsFailed) as caught:
        await run_with_queue(
            LANE, range(0, 8, 2), odd_fails, best_effort=True,
            on_result=on_result, on_error=failed.append,
        )  # fmt: skip
    assert caught.value.results == [0, 20, None, 60]
    assert [type(one.error) for one in failed] == [KeyError]


@pytest.mark.asyncio
async def test_an_error_in_on_error_is_noted_on_the_item_s_own():
    def on_error(_finished: Finished[int, int]) -> None:
        raise RuntimeError("no log")

    with pytest.raises(ValueError, match="1") as caught:
        await run_with_queue(LANE, [1], odd_fails, on_error=on_error)
    assert caught.value.__notes__ == ["on_error then raised RuntimeError: no log"]


@pytest.mark.asyncio
async def test_a_group_that_is_split_keeps_the_results():
    with pytest.raises(ItemsFailed) as caught:
        await run_with_queue(LANE, range(4), odd_fails, best_effort=True)
    part = caught.value.subgroup(lambda error: error.args == (3,))
    assert isinstance(part, ItemsFailed)
    assert (part.results, len(part.exceptions)) == ([0, None, 20, None], 1)


@pytest.mark.asyncio
async def test_an_error_of_the_source_is_raised_after_running_items_have_finished():
    ended = []

    async def source() -> AsyncIterator[int]:
        yield 0
        yield 2
        await asyncio.sleep(0.001)
        raise OSError("the list is torn")

    async def worker(item: int) -> None:
        await asyncio.sleep(0.01)
        ended.append(item)

    with pytest.raises(OSError, match="the list is torn"):
        await run_with_queue(LANE, source(), worker)
    assert sorted(ended) == [0, 2]


@pytest.mark.asyncio
async def test_a_retry_waits_without_holding_a_slot():
    order = []

    async def worker(item: int) -> None:
        order.append(item)
        if item == 0 and order.count(0) == 1:
            raise ValueError

    one = Lane("one", 1, 8)
    await run_with_queue(one, range(3), worker, retries=1, backoff=lambda _e, _n: 0.05)
    assert order == [0, 1, 2, 0]


@pytest.mark.asyncio
async def test_a_retry_after_of_the_error_replaces_the_backoff():
    wait = exponential(base=100, ceiling=1000, jitter=0)
    assert wait(StepFailed("rate_limited", "slow down", retry_after=7), 3) == 7
    assert wait(StepFailed("timeout", "late"), 3) == 400
    assert wait(StepFailed("timeout", "late"), 5000) == 1000


@pytest.mark.asyncio
async def test_cancelling_the_caller_cancels_what_runs():
    run = asyncio.create_task(run_with_queue(LANE, count(), lambda _item: asyncio.sleep(600)))
    await asyncio.sleep(0.01)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.asyncio
async def test_a_worker_that_awaits_something_cancelled_fails_its_item_and_hangs_nothing():
    async def worker(_item: int) -> None:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="the worker awaited something that was cancelled"):
        await run_with_queue(LANE, range(3), worker)


@pytest.mark.asyncio
async def test_the_source_waits_when_max_pending_is_reached():
    taken = ended = 0

    def source() -> Iterator[int]:
        nonlocal taken
        for item in range(60):
            taken += 1
            assert taken - ended <= 6
            yield item

    async def worker(_item: int) -> None:
        nonlocal ended
        await asyncio.sleep(0.001)
        ended += 1

    await run_with_queue(Lane("narrow", 2, 6), source(), worker)
    assert ended == 60


def test_no_exception_is_left_unretrieved_however_a_run_ends():
    """In a process of its own with every warning as an error; each run is dropped and garbage-collected."""
    code = (Path(__file__).parents[2] / "window_endings_script.py").read_text()
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code],
        capture_output=True, text=True, cwd=Path(__file__).parents[3], timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "all ended\n", "")


@pytest.mark.asyncio
@pytest.mark.parametrize("best_effort", [True, False])
async def test_no_item_is_pulled_while_those_without_a_result_have_too_many_bytes(best_effort: bool) -> None:
    """At most one item lies beyond the bound, one larger than it runs alone, and retries still count."""
    sizes = [300, 300, 300, 5000, 1, 1, 999, 2, 1000, 1, 700, 700]
    pending: dict[int, int] = {}
    seen: list[tuple[int, ...]] = []
    failed: set[int] = set()

    def source() -> Iterator[tuple[int, int]]:
        for number, size in enumerate(sizes):
            assert sum(pending.values()) < 1000, (number, pending)
            pending[number] = size
            seen.append(tuple(pending.values()))
            yield number, size

    async def worker(item: tuple[int, int]) -> int:
        await asyncio.sleep(0.001 * (item[0] % 3))
        if item[0] % 4 == 1 and item[0] not in failed:
            failed.add(item[0])
            raise ValueError(item)
        return item[0]

    results = await run_with_queue(
        LANE, source(), worker, best_effort=best_effort, retries=1, backoff=at_once, max_pending_bytes=1000,
        size_of=lambda item: item[1], on_result=lambda done: pending.pop(done.seq),
    )  # fmt: skip
    assert results == list(range(len(sizes)))
    assert max(map(len, seen)) > 1


@pytest.mark.asyncio
async def test_a_bound_of_no_bytes_is_refused() -> None:
    with pytest.raises(BadInput, match="at least 1"):
        await run_with_queue(LANE, [b"x"], odd_fails, max_pending_bytes=0)  # type: ignore[arg-type]
