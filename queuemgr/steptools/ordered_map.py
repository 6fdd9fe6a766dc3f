"""An asynchronous map with ordered results, bounded concurrency, retries and an abort signal.

`run_with_queue` returns the results in the order of the items. `in_order` yields each result as soon as
those before it were yielded, and a slow reader slows the source. Both use `map_runner`, which carries
out what `map_window` decides.

An abort cancels what runs. A failure that ends the run lets what runs finish. In every case no task is
left running and no exception unretrieved. Plain Python and asyncio.
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
    exponential,
    was_cancelled,
)
from queuemgr.steptools.map_window import Bounds

__all__ = ["Finished", "ItemsFailed", "Lane", "exponential", "in_order", "run_with_queue"]

T = TypeVar("T")
R = TypeVar("R")

Callback = Callable[[Finished[T, R]], object]

DEFAULT_BACKOFF = exponential()


class ItemsFailed(ExceptionGroup[Exception]):
    """Items failed in a run with `best_effort`.

    `results` has one element per item, None for failed ones; `failed` maps the position of each failed
    item to its error. `exceptions` are the same errors in the order of the items, and last the error of
    the source if it raised one.
    """

    results: list[Any]
    failed: dict[int, Exception]

    def derive(self, excs: Sequence[Exception]) -> ItemsFailed:  # type: ignore[override]
        """Groups made by `split` and `except*` have the results too."""
        group = ItemsFailed(self.message, excs)
        group.results, group.failed = self.results, self.failed
        return group


async def run_with_queue(
    lane: Lane,
    items: Items[T],
    worker: Worker[T, R],
    *,
    best_effort: bool = False,
    on_result: Callback[T, R] | None = None,
    on_error: Callback[T, R] | None = None,
    retries: int = 0,
    backoff: Backoff = DEFAULT_BACKOFF,
    retryable: Retryable = any_error,
    signal: AbortSignal = NEVER,
) -> list[R | None]:
    """Run `worker` over `items`, `lane.concurrency` at once; the results in the order of the items.

    The first final failure stops further starts; what runs finishes, and that failure is raised. With
    `best_effort` every item is run, and `ItemsFailed` is raised at the end. An abort cancels what runs,
    calls no callback any more and raises `Aborted`, with `best_effort` too. An error of the source is
    raised after what runs has finished (with `best_effort`, after all pulled items have), and is part
    of the group if items failed too.

    `on_result` is called for each success and `on_error` once for each failed item, in the order in
    which they finish and before the item's slot is free again; either may be asynchronous. An error in
    `on_result` makes the item a failure; an error in `on_error` is noted on the item's own error.
    """
    batch: _Batch[T, R] = _Batch(on_result, on_error)
    run = AttemptRunner(
        Bounds(lane.concurrency, lane.max_pending),
        items, worker, Retries(retries, backoff, retryable), signal,
        on_final=batch.add, fail_fast=not best_effort,
    )  # fmt: skip
    async with run:
        await run.wait_until(bool)
    return batch.outcome(run.window.pulled, run.source_error, best_effort)


def in_order(
    lane: Lane,
    items: Items[T],
    worker: Worker[T, R],
    *,
    window: int,
    retries: int = 0,
    backoff: Backoff = DEFAULT_BACKOFF,
    retryable: Retryable = any_error,
    signal: AbortSignal = NEVER,
) -> AsyncGenerator[Finished[T, R], None]:
    """Yield each item's `Finished` in the order of the items, failures too.

    No item is pulled, run or retried that is `window` or more positions after the oldest one not yet
    yielded, so a slow reader slows the source and at most `window` results wait for it. Nothing starts
    before the first result is asked for. A reader that stops early must close the generator
    (`contextlib.aclosing`): that cancels what runs. After an abort `Aborted` is raised, even if results
    wait to be read. An error of the source is raised after the results of the items before it. Raises
    `BadInput` for a window below 1.
    """
    if window < 1:
        raise BadInput(f"the window is {window}; it must be at least 1")
    bounds = Bounds(lane.concurrency, lane.max_pending, window)
    return _read(bounds, items, worker, Retries(retries, backoff, retryable), signal)


async def _read(
    bounds: Bounds, items: Items[T], worker: Worker[T, R], retries: Retries, signal: AbortSignal
) -> AsyncGenerator[Finished[T, R], None]:
    unread: dict[int, Finished[T, R]] = {}

    async def add(finished: Finished[T, R]) -> bool:
        unread[finished.seq] = finished
        return True

    run = AttemptRunner(bounds, items, worker, retries, signal, on_final=add, fail_fast=False)
    async with run:
        while True:
            await run.wait_until(lambda: run.window.released in unread)
            if run.window.released not in unread:
                break
            finished = unread.pop(run.window.released)
            run.release_oldest()
            yield finished
    if run.source_error is not None:
        raise run.source_error


class _Batch(Generic[T, R]):
    """The results and failures of `run_with_queue`, and its callbacks."""

    def __init__(self, on_result: Callback[T, R] | None, on_error: Callback[T, R] | None) -> None:
        self._on_result, self._on_error = on_result, on_error
        self._results: list[R | None] = []
        self._failed: dict[int, Exception] = {}
        self._first: Exception | None = None

    async def add(self, finished: Finished[T, R]) -> bool:
        """Call back and store the result; returns whether the item is a success after that."""
        if finished.error is None:
            error = await _call(self._on_result, finished)
            if error is None:
                self._extend(finished.seq + 1)
                self._results[finished.seq] = finished.result
                return True
            finished = replace(finished, result=None, error=error)
        await self._fail(finished)
        return False

    async def _fail(self, finished: Finished[T, R]) -> None:
        assert finished.error is not None
        self._failed[finished.seq] = finished.error
        self._first = self._first or finished.error
        error = await _call(self._on_error, finished)
        if error is not None and error is not finished.error:
            finished.error.add_note(f"on_error then raised {type(error).__name__}: {error}")

    def _extend(self, length: int) -> None:
        self._results.extend([None] * (length - len(self._results)))

    def outcome(self, pulled: int, source_error: Exception | None, best_effort: bool) -> list[R | None]:
        """The results; raises the error of the run if there is one."""
        self._extend(pulled)
        if best_effort and self._failed:
            raise self._group(source_error)
        error = self._first or source_error
        if error is not None:
            raise error
        return self._results

    def _group(self, source_error: Exception | None) -> ItemsFailed:
        errors = [self._failed[seq] for seq in sorted(self._failed)]
        message = f"{len(errors)} of {len(self._results)} items failed"
        if source_error is not None:
            errors, message = [*errors, source_error], f"{message}, and the source raised an error"
        group = ItemsFailed(message, errors)
        group.results, group.failed = self._results, self._failed
        return group


async def _call(callback: Callback[T, R] | None, finished: Finished[T, R]) -> Exception | None:
    """Call back, and await the result if it is awaitable; returns the error it raised."""
    try:
        answer = None if callback is None else callback(finished)
        if inspect.isawaitable(answer):
            await answer
    except Exception as error:
        return error
    except asyncio.CancelledError:
        if was_cancelled():
            raise
        return RuntimeError("a callback awaited something that was cancelled")
    return None
