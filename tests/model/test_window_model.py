"""Drawn runs of the window against a plain loop: any outcomes, delays, retries, bounds and aborts."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queuemgr.base.errors import Aborted
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from queuemgr.steptools.ordered_map import Finished, ItemsFailed, in_order, run_with_queue
from tests.instant_loop import run
from tests.model.window_scripts import CASE, CallbackBroke, Case, Watch, one_after_another, retryable
from tests.private_servers import MODEL_EXAMPLES

many = settings(max_examples=12 * MODEL_EXAMPLES, deadline=None)


class Callbacks:
    """Both callbacks, what they were called with, and their own failures as scripted."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.results: list[Finished[int, str]] = []
        self.errors: list[Finished[int, str]] = []

    async def on_result(self, finished: Finished[int, str]) -> None:
        self.results.append(finished)
        await asyncio.sleep(0)
        if self.case.scripts[finished.seq].breaks_on_result:
            raise CallbackBroke(finished.seq)

    def on_error(self, finished: Finished[int, str]) -> None:
        self.errors.append(finished)
        if self.case.scripts[finished.seq].breaks_on_error:
            raise CallbackBroke(finished.seq)


def queued(watch: Watch, calls: Callbacks, **options: Any) -> Any:
    case = watch.case
    return run_with_queue(
        case.lane, watch.source(), watch.worker, on_result=calls.on_result, on_error=calls.on_error,
        retries=case.retries, backoff=watch.backoff, retryable=retryable, **options,
    )  # fmt: skip


def ordered(watch: Watch, signal: AbortSignal = NEVER) -> Any:
    case = watch.case
    watch.handed = 0
    return in_order(
        case.lane, watch.source(), watch.worker, window=case.window, retries=case.retries,
        backoff=watch.backoff, retryable=retryable, signal=signal,
    )  # fmt: skip


@many
@given(CASE)
def test_a_best_effort_run_ends_like_a_plain_loop_over_the_items(case: Case):
    watch, calls = Watch(case), Callbacks(case)
    expected = one_after_another(case, callbacks=True)
    failing = [seq for seq, (_, how) in enumerate(expected) if how != "ok"]
    try:
        results = run(queued(watch, calls, best_effort=True))
        failed: dict[int, Exception] = {}
    except ItemsFailed as group:
        results, failed = group.results, group.failed
        assert list(group.exceptions) == [failed[seq] for seq in failing]
    assert sorted(failed) == sorted(one.seq for one in calls.errors) == failing
    assert results == [f"result {s}" if h == "ok" else None for s, (_, h) in enumerate(expected)]
    assert [watch.tries[seq] for seq in range(len(expected))] == [count for count, _ in expected]
    assert {type(e).__name__.lower() for e in failed.values()} == {
        expected[seq][1].lower() for seq in failing
    }
    assert watch.most_running <= case.lane.concurrency


@many
@given(CASE)
def test_a_run_that_fails_fast_raises_its_first_failure_and_starts_nothing_after_it(case: Case):
    watch, calls = Watch(case), Callbacks(case)
    expected = one_after_another(case, callbacks=True)
    started_by_then: list[int] = []

    def on_error(finished: Finished[int, str]) -> None:
        if not calls.errors:
            started_by_then.append(sum(watch.tries.values()))
        calls.errors.append(finished)

    calls.on_error = on_error  # type: ignore[method-assign]  # of this run only
    try:
        results = run(queued(watch, calls))
    except Exception as error:
        assert error is calls.errors[0].error
        assert sum(watch.tries.values()) == started_by_then[0]
    else:
        assert all(how == "ok" for _, how in expected)
        assert results == [f"result {seq}" for seq in range(len(expected))]
    failed_seqs = [one.seq for one in calls.errors]
    broke = {one.seq for one in calls.results if case.scripts[one.seq].breaks_on_result}
    assert len(failed_seqs) == len(set(failed_seqs))
    assert sorted({*failed_seqs, *(one.seq for one in calls.results)}) == sorted(watch.tries)
    assert {one.seq for one in calls.results} & set(failed_seqs) == broke


@many
@given(CASE)
def test_a_reader_is_given_every_item_in_order_and_nothing_leaves_the_window(case: Case):
    watch, expected = Watch(case), one_after_another(case)
    got: list[Finished[int, str]] = []

    async def read() -> None:
        async for finished in ordered(watch):
            watch.handed = finished.seq + 1
            got.append(finished)
            await asyncio.sleep(case.reader_waits[finished.seq % len(case.reader_waits)])

    run(read())
    assert [one.seq for one in got] == list(range(len(expected)))
    assert [(one.attempts, outcome_of(one)) for one in got] == expected
    assert watch.most_running <= case.lane.concurrency


def outcome_of(finished: Finished[int, str]) -> str:
    if finished.error is None:
        assert finished.result == f"result {finished.seq}"
        return "ok"
    return type(finished.error).__name__.lower()


@many
@given(CASE, st.integers(0, 12))
def test_a_reader_that_leaves_early_leaves_nothing_running(case: Case, reads: int):
    watch = Watch(case)

    async def read() -> int:
        count = 0
        async with aclosing(ordered(watch)) as results:
            async for finished in results:
                watch.handed = finished.seq + 1
                count += 1
                if count > reads:
                    break
        return count

    assert run(read()) == min(reads + 1, len(case.scripts))
    assert watch.running == 0


@many
@given(CASE, st.booleans(), st.sampled_from([0, 0.5, 1, 2, 3.5, 8]))
def test_an_abort_at_any_moment_is_raised_and_no_callback_runs_after_it(
    case: Case, best_effort: bool, at: float
):
    watch, calls, signal = Watch(case), Callbacks(case), AbortSignal()
    seen_at_abort: list[int] = []

    def abort() -> None:
        signal.abort("drawn")
        seen_at_abort.append(len(calls.results) + len(calls.errors))

    async def work() -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_at(at, abort) if at else abort()
        try:
            await queued(watch, calls, best_effort=best_effort, signal=signal)
        finally:
            assert signal.aborted or loop.time() <= at
            if timer is not None:
                timer.cancel()

    try:
        run(work())
    except Aborted as error:
        assert str(error) == "drawn"
        assert seen_at_abort == [len(calls.results) + len(calls.errors)]
    except Exception:
        assert not signal.aborted
    else:
        assert not signal.aborted
    assert watch.running == 0


@many
@given(CASE, st.sampled_from([0.5, 1, 2, 3.5, 8]))
def test_an_abort_at_any_moment_is_raised_in_the_reader(case: Case, at: float):
    watch, signal = Watch(case), AbortSignal()
    got: list[int] = []

    async def read() -> None:
        timer = asyncio.get_running_loop().call_at(at, signal.abort, "drawn")
        async for finished in ordered(watch, signal):
            assert not signal.aborted
            watch.handed = finished.seq + 1
            got.append(finished.seq)
            await asyncio.sleep(case.reader_waits[finished.seq % len(case.reader_waits)])
        timer.cancel()

    if len(case.scripts) == 0:
        run(read())
        return
    try:
        run(read())
    except Aborted:
        assert signal.aborted
    else:
        assert not signal.aborted
        assert len(got) == len(case.scripts)
    assert got == list(range(len(got)))
    assert watch.running == 0


async def _asks_in_vain() -> None:
    await asyncio.get_running_loop().create_future()


def test_the_event_loop_of_these_tests_detects_a_lost_wakeup():
    with pytest.raises(AssertionError, match="a wake-up was lost"):
        run(_asks_in_vain())
