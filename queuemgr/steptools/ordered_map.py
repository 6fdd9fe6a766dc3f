"""An asynchronous map that is ordered, bounded, retrying and abortable.

`run_with_queue` runs a worker over items and returns the results in their order; `in_order` hands
each result to a reader as soon as all before it were handed over, and lets a slow reader slow the
source. Both are one engine: `map_runner` carries out what `map_window` decides.

An abort cancels what runs; a failure (where failing is fast) lets it come to its end. Both forms
end with no task left over and every exception looked at. Plain Python and asyncio.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from queuemgr.base.errors import BadInput
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from queuemgr.steptools.lanes import Lane
from queuemgr.steptools.map_runner import (
    AttemptRunner,
    Backoff,
    Finished,
    Items,
    Retries,
    Retryable,
    Worker,
    any_error,
    doubling,
    was_cancelled,
)
from queuemgr.steptools.map_window import Bounds

__all__ = ["Finished", "ItemsFailed", "Lane", "doubling", "in_order", "run_with_queue"]

T = TypeVar("T")
R = TypeVar("R")

Callback = Callable[[Finished[T, R]], object]

DOUBLING = doubling()


class ItemsFailed(ExceptionGroup[Exception]):
    """Items failed in a run that did all it could.

    `results` has a place for every item, None for those that failed; `failed` says what each of
    those raised, by its place. `exceptions` are the same errors in input order, and last the
    source's own where it broke.
    """

    results: list[Any]
    failed: dict[int, Exception]

    def derive(self, excs: Sequence[Exception]) -> ItemsFailed:  # type: ignore[override]
        """What `split` and `except*` make of it: the results stay reachable."""
        made = ItemsFailed(self.message, excs)
        made.results, made.failed = self.results, self.failed
        return made


async def run_with_queue(
    lane: Lane,
    items: Items[T],
    worker: Worker[T, R],
    *,
    best_effort: bool = False,
    on_result: Callback[T, R] | None = None,
    on_error: Callback[T, R] | None = None,
    retries: int = 0,
    backoff: Backoff = DOUBLING,
    retryable: Retryable = any_error,
    signal: AbortSignal = NEVER,
) -> list[R | None]:
    """Run `worker` over `items`, `lane.concurrency` at once; its results, in the order of the items.

    The first final failure stops further starts; what runs comes to its end, and that failure is
    raised. With `best_effort` everything is run, and `ItemsFailed` raised at the end. When the
    signal is set what runs is cancelled, no callback is called any more, and `Aborted` is raised,
    best effort or not. An error of the source itself is raised after what runs has ended (with
    `best_effort`, after all that was taken has), in the group where items failed too.

    `on_result` is called with each success and `on_error` once with each failing item, as they end
    and one item's before its slot is free again; either may be asynchronous. An error in
    `on_result` makes that item a failure; one in `on_error` is noted on the item's own error.
    """
    batch: _Batch[T, R] = _Batch(on_result, on_error)
    run = AttemptRunner(
        Bounds(lane.concurrency, lane.max_pending),
        items, worker, Retries(retries, backoff, retryable), signal,
        keep=batch.keep, fail_fast=not best_effort,
    )  # fmt: skip
    async with run:
        await run.until(bool)
    return batch.outcome(run.plan.taken, run.source_error, best_effort)


def in_order(
    lane: Lane,
    items: Items[T],
    worker: Worker[T, R],
    *,
    window: int,
    retries: int = 0,
    backoff: Backoff = DOUBLING,
    retryable: Retryable = any_error,
    signal: AbortSignal = NEVER,
) -> AsyncGenerator[Finished[T, R], None]:
    """Each item's `Finished`, strictly in the order of the items, failures too.

    No item is taken, run or tried again that is `window` or more behind the oldest one not yet
    handed to the reader, so a slow reader slows the source and at most `window` results wait.
    Nothing begins before the first result is asked for. Leaving early must close the generator
    (`contextlib.aclosing`): that cancels what runs and leaves no task. When the signal is set
    `Aborted` is raised, whatever waited to be read; an error of the source is raised after the
    results of all items before it. Raises `BadInput` for a window below 1.
    """
    if window < 1:
        raise BadInput(f"the window is {window}; it must be at least 1")
    bounds = Bounds(lane.concurrency, lane.max_pending, window)
    return _read(bounds, items, worker, Retries(retries, backoff, retryable), signal)


async def _read(
    bounds: Bounds, items: Items[T], worker: Worker[T, R], retries: Retries, signal: AbortSignal
) -> AsyncGenerator[Finished[T, R], None]:
    waiting: dict[int, Finished[T, R]] = {}

    async def keep(finished: Finished[T, R]) -> bool:
        waiting[finished.seq] = finished
        return True

    run = AttemptRunner(bounds, items, worker, retries, signal, keep=keep, fail_fast=False)
    async with run:
        while True:
            await run.until(lambda: run.plan.handed in waiting)
            if run.plan.handed not in waiting:
                break
            finished = waiting.pop(run.plan.handed)
            run.hand()
            yield finished
    if run.source_error is not None:
        raise run.source_error


class _Batch(Generic[T, R]):
    """The results of `run_with_queue`, its failures, and its callbacks."""

    def __init__(self, on_result: Callback[T, R] | None, on_error: Callback[T, R] | None) -> None:
        self._on_result, self._on_error = on_result, on_error
        self._results: list[R | None] = []
        self._failed: dict[int, Exception] = {}
        self._first: Exception | None = None

    async def keep(self, finished: Finished[T, R]) -> bool:
        """Call back, and keep what came of it; whether the item is a success after that."""
        if finished.error is None:
            error = await _called(self._on_result, finished)
            if error is None:
                self._grow(finished.seq + 1)
                self._results[finished.seq] = finished.result
                return True
            finished = replace(finished, result=None, error=error)
        await self._fail(finished)
        return False

    async def _fail(self, finished: Finished[T, R]) -> None:
        assert finished.error is not None
        self._failed[finished.seq] = finished.error
        self._first = self._first or finished.error
        error = await _called(self._on_error, finished)
        if error is not None and error is not finished.error:
            finished.error.add_note(f"on_error then raised {type(error).__name__}: {error}")

    def _grow(self, length: int) -> None:
        self._results.extend([None] * (length - len(self._results)))

    def outcome(
        self, taken: int, source_error: Exception | None, best_effort: bool
    ) -> list[R | None]:
        """The results, or the error that stands for the run."""
        self._grow(taken)
        if best_effort and self._failed:
            raise self._group(source_error)
        error = self._first or source_error
        if error is not None:
            raise error
        return self._results

    def _group(self, source_error: Exception | None) -> ItemsFailed:
        errors = [self._failed[seq] for seq in sorted(self._failed)]
        broke = [] if source_error is None else [source_error]
        told = f"{len(errors)} of {len(self._results)} items failed"
        group = ItemsFailed(told + (", and the source broke" if broke else ""), errors + broke)
        group.results, group.failed = self._results, self._failed
        return group


async def _called(callback: Callback[T, R] | None, finished: Finished[T, R]) -> Exception | None:
    """Call back, and wait for it where it is asynchronous; what it raised."""
    try:
        answer = None if callback is None else callback(finished)
        if inspect.isawaitable(answer):
            await answer
    except Exception as error:
        return error
    except asyncio.CancelledError:
        if was_cancelled():
            raise
        return RuntimeError("a callback waited for something that was cancelled")
    return None
