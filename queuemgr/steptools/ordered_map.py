"""An asynchronous map with ordered results, bounded concurrency, retries and an abort signal.

`run_with_queue` returns the results in the order of the items. `in_order` yields each result as soon as
those before it were yielded, and a slow reader slows the source. Both use `map_runner`, which carries
out what `map_window` decides.

An abort cancels what runs. A failure that ends the run lets what runs finish. In every case no task is
left running and no exception unretrieved. Plain Python and asyncio.
"""

from __future__ import annotations

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
    Worker,
    exponential,
    outcome_of,
)
from queuemgr.steptools.map_window import ByteBound, MapWindow

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

    def derive(self, excs: Sequence[Exception]) -> ItemsFailed:  # type: ignore[override]  # returns this type only
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
    retryable: Callable[[Exception], bool] | None = None,
    signal: AbortSignal = NEVER,
    max_pending_bytes: int | None = None,
    size_of: Callable[[T], int] = len,  # type: ignore[assignment]  # of items that are bytes or texts
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

    With `max_pending_bytes` no item is pulled while those without a final result have so many bytes or
    more, as `size_of` says of each; one larger than that runs alone. Raises `BadInput` below 1.
    """
    batch: _Batch[T, R] = _Batch(on_result, on_error)
    run = AttemptRunner(
        MapWindow(lane, None, _bound(max_pending_bytes, size_of)), items, worker,
        Retries(retries, backoff, retryable), signal,
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
    retryable: Callable[[Exception], bool] | None = None,
    signal: AbortSignal = NEVER,
    max_pending_bytes: int | None = None,
    size_of: Callable[[T], int] = len,  # type: ignore[assignment]  # of items that are bytes or texts
) -> AsyncGenerator[Finished[T, R], None]:
    """Yield each item's `Finished` in the order of the items, failures too.

    No item is pulled, run or retried that is `window` or more positions after the oldest one not yet
    yielded, so a slow reader slows the source and at most `window` results wait for it. Nothing starts
    before the first result is asked for. A reader that stops early must close the generator
    (`contextlib.aclosing`): that cancels what runs. After an abort `Aborted` is raised, even if results
    wait to be read. An error of the source is raised after the results of the items before it. Raises
    `BadInput` for a window below 1. `max_pending_bytes` and `size_of` are as in `run_with_queue`.
    """
    if window < 1:
        raise BadInput(f"the window is {window}; it must be at least 1")
    bound = _bound(max_pending_bytes, size_of)
    return _read(MapWindow(lane, window, bound), items, worker, Retries(retries, backoff, retryable), signal)


def _bound(most: int | None, size_of: Callable[[T], int]) -> ByteBound[T] | None:
    if most is not None and most < 1:
        raise BadInput(f"max_pending_bytes is {most}; it must be at least 1")
    return None if most is None else ByteBound(most, size_of)


async def _read(
    window: MapWindow[T], items: Items[T], worker: Worker[T, R], retries: Retries, signal: AbortSignal
) -> AsyncGenerator[Finished[T, R], None]:
    unread: dict[int, Finished[T, R]] = {}

    async def add(finished: Finished[T, R]) -> bool:
        unread[finished.seq] = finished
        return True

    run = AttemptRunner(window, items, worker, retries, signal, on_final=add, fail_fast=False)
    async with run:
        while True:
            await run.wait_until(lambda: window.released in unread)
            if window.released not in unread:
                break
            finished = unread.pop(window.released)
            run.release_oldest()
            yield finished
    if run.source_error is not None:
        raise run.source_error


class _Batch(Generic[T, R]):
    """The results and failures of `run_with_queue`, and its callbacks."""

    def __init__(self, on_result: Callback[T, R] | None, on_error: Callback[T, R] | None) -> None:
        self._on_result, self._on_error = on_result, on_error
        self._results: dict[int, R | None] = {}
        self._failed: dict[int, Exception] = {}

    async def add(self, finished: Finished[T, R]) -> bool:
        """Call back and store the result; returns whether the item is a success after that."""
        error = finished.error or await _call(self._on_result, finished)
        if error is None:
            self._results[finished.seq] = finished.result
            return True
        self._failed[finished.seq] = error
        second = await _call(self._on_error, replace(finished, result=None, error=error))
        if second is not None and second is not error:
            error.add_note(f"on_error then raised {type(second).__name__}: {second}")
        return False

    def outcome(self, pulled: int, source_error: Exception | None, best_effort: bool) -> list[R | None]:
        """The results of the items pulled; raises the error of the run if there is one."""
        results = [self._results.get(seq) for seq in range(pulled)]
        if best_effort and self._failed:
            raise self._group(results, source_error)
        error = next(iter(self._failed.values()), source_error)
        if error is not None:
            raise error
        return results

    def _group(self, results: list[R | None], source_error: Exception | None) -> ItemsFailed:
        errors = [self._failed[seq] for seq in sorted(self._failed)]
        message = f"{len(errors)} of {len(results)} items failed"
        if source_error is not None:
            errors, message = [*errors, source_error], f"{message}, and the source raised an error"
        group = ItemsFailed(message, errors)
        group.results, group.failed = results, self._failed
        return group


async def _call(callback: Callback[T, R] | None, finished: Finished[T, R]) -> Exception | None:
    """The error a callback raised."""
    return None if callback is None else (await outcome_of("a callback", callback, finished)).error
