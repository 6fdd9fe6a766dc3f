"""Runs a windowed map on asyncio: pulls items, runs attempts, waits for retries, and cancels.

Effects only: what may be done next is decided by `map_window`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Coroutine, Iterable
from contextlib import ExitStack, aclosing, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.retry_policy import Policy, retry_delay
from queuemgr.steptools.map_window import ItemAttempt, MapWindow

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

SHARE_SECONDS = 0.001
"""How long a worker that never waits may run before it yields to the event loop."""

CANCEL_SECONDS = 1.0
"""How long a cancelled task has for its clean-up before it is cancelled a second time."""

LAST_SECONDS = 0.5
"""How long it has after that. What still runs is abandoned with a log line, so that an abort takes no
longer than both together."""


@dataclass(frozen=True, slots=True)
class Finished(Generic[T, R]):
    """The final result of one item: its position (from 0), its attempts, and a result or an error."""

    seq: int
    item: T
    attempts: int
    result: R | None = None
    error: Exception | None = None


Backoff = Callable[[Exception, int], float]


def exponential(base: float = 1.0, ceiling: float = 60.0, jitter: float = 1.0) -> Backoff:
    """A delay of `min(ceiling, base * 2**(attempt-1))` seconds, and up to `jitter` more.

    A `retry_after` of the error (as `StepFailed` has) replaces the power.
    """

    def delay(error: Exception, attempt: int) -> float:
        policy = Policy(attempt + 1, base, ceiling, jitter)
        return retry_delay(policy, attempt, retry_after=getattr(error, "retry_after", None)) or 0.0

    return delay


@dataclass(frozen=True)
class Retries:
    """How often a failed item is retried, after what delay, and for which errors (None: for all)."""

    limit: int
    backoff: Backoff
    retryable: Callable[[Exception], bool] | None = None

    def delay(self, error: Exception, attempts: int) -> float | None:
        """Seconds until the retry after `attempts` attempts, at least 0; None for no retry.

        Raises `ValueError` when the backoff returns no finite number.
        """
        if attempts > self.limit or (self.retryable and not self.retryable(error)):
            return None
        seconds = self.backoff(error, attempts)
        if not math.isfinite(seconds):
            raise ValueError(f"the backoff returned a delay of {seconds} seconds") from error
        return max(0.0, seconds)


Worker = Callable[[T], Awaitable[R]]
Items = Iterable[T] | AsyncIterable[T]


class AttemptRunner(Generic[T, R]):
    """One run in one event loop, as an asynchronous context manager.

    `on_final` is called with each final result, and returns whether it counts as a success.
    """

    def __init__(
        self,
        window: MapWindow[T],
        items: Items[T],
        worker: Worker[T, R],
        retries: Retries,
        signal: AbortSignal,
        *,
        on_final: Callable[[Finished[T, R]], Awaitable[bool]],
        fail_fast: bool,
    ) -> None:
        self.window = window
        self.source_error: Exception | None = None
        self._items, self._worker, self._retries = items, worker, retries
        self._signal, self._on_final, self._fail_fast = signal, on_final, fail_fast
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._can_pull, self._progress = asyncio.Event(), asyncio.Event()
        self._awaited: Callable[[], bool] = bool
        self._task_error: BaseException | None = None
        self._cancelling = False
        self._hooks = ExitStack()

    async def __aenter__(self) -> None:
        self._signal.raise_if_aborted()
        self._hooks.enter_context(self._signal.hooked(self._abort_from_any_thread))
        self._start_task(self._pull())

    async def __aexit__(self, *_: object) -> None:
        self._hooks.close()
        for seconds in (CANCEL_SECONDS, LAST_SECONDS):
            self._cancel_tasks()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=seconds)
        if self._tasks:
            logger.warning("%d tasks ignore their cancellation and are abandoned", len(self._tasks))

    async def wait_until(self, awaited: Callable[[], bool]) -> None:
        """Wait until `awaited()` is true or the run is over. Raises `Aborted` after an abort."""
        self._awaited = awaited
        while not (awaited() or self.window.over or self._must_end()):
            self._progress.clear()
            await self._progress.wait()
        if self._task_error is not None:
            raise self._task_error
        self._signal.raise_if_aborted()

    def release_oldest(self) -> None:
        """The oldest item's result goes to the reader: the window advances, and the source may continue."""
        self.window.released += 1
        self._resume_source()

    def _advance(self) -> None:
        """Do all that may be done now: start attempts, resume the source, wake the reader."""
        if not self._must_end():
            self._start_attempts()
        self._resume_source()
        if self._must_end() or self.window.over or self._awaited():
            self._progress.set()

    def _start_attempts(self) -> None:
        while (attempt := self.window.start()) is not None:
            self._start_task(self._run_slot(attempt))

    def _resume_source(self) -> None:
        if self.window.can_pull:
            self._can_pull.set()

    def _must_end(self) -> bool:
        return self._task_error is not None or self._signal.aborted

    async def _pull(self) -> None:
        """Pull items from the source whenever the window allows it."""
        try:
            async with aclosing(_stream(self._items)) as stream:
                await self._until_can_pull()
                async for item in stream:
                    self.window.add(item)
                    self._start_attempts()
                    await self._until_can_pull()
        except Exception as error:  # the source is the caller's: any kind
            self.source_error = error
            self._stop_if_fail_fast()
        self.window.source_done = True
        self._advance()

    async def _until_can_pull(self) -> None:
        while not self.window.can_pull:
            self._can_pull.clear()
            await self._can_pull.wait()

    async def _run_slot(self, attempt: ItemAttempt[T] | None) -> None:
        """Run one attempt after another in one slot, until there is none."""
        yields_at = self._loop.time() + SHARE_SECONDS
        while attempt is not None and not self._must_end():
            await self._run(attempt)
            attempt = None if self._must_end() else self.window.start()
            self._advance()
            if attempt is not None and self._loop.time() >= yields_at:
                await asyncio.sleep(0)
                yields_at = self._loop.time() + SHARE_SECONDS

    async def _run(self, attempt: ItemAttempt[T]) -> None:
        """Run an attempt, and retry it or report its end. After a stop nothing runs: the error of an item
        that waited for a retry is final, others have none."""
        result: R | None = None
        if not self.window.stopped:
            attempt.attempts += 1
            result, attempt.error = await outcome_of("the worker", self._worker, attempt.item)
            if self._signal.aborted:
                return
            delay = self._delay(attempt)
            if delay is not None:
                self.window.wait_for_retry(attempt)
                self._start_task(self._retry_later(attempt, delay))
                return
        if attempt.attempts:
            await self._report(attempt, result)
        self.window.end(attempt)

    def _delay(self, attempt: ItemAttempt[T]) -> float | None:
        """Seconds until the retry, None for no retry; an error of the backoff is the item's error."""
        if attempt.error is None or self.window.stopped:
            return None
        try:
            return self._retries.delay(attempt.error, attempt.attempts)
        except Exception as error:  # a callback's, so of any kind
            attempt.error = error
            return None

    async def _retry_later(self, attempt: ItemAttempt[T], delay: float) -> None:
        await asyncio.sleep(delay)
        self.window.retry(attempt)
        self._advance()

    async def _report(self, attempt: ItemAttempt[T], result: R | None) -> None:
        """Report the final result. A failure that ends the run stops further starts first."""
        # The error's frames may refer to `attempt`: clearing it avoids a reference cycle.
        error, attempt.error = attempt.error, None
        if error is not None:
            self._stop_if_fail_fast()
        finished = Finished(attempt.seq, attempt.item, attempt.attempts, result, error)
        if not await self._on_final(finished):
            self._stop_if_fail_fast()

    def _stop_if_fail_fast(self) -> None:
        if self._fail_fast:
            self.window.stop()

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        """A task that raised, or that somebody else cancelled, ends the run: its slot would otherwise
        count as running indefinitely."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if task.cancelled() and not self._cancelling:
            error = RuntimeError("a task of this run was cancelled from outside")
        if error is not None:
            self._task_error = self._task_error or error
            self._advance()

    def _abort_from_any_thread(self) -> None:
        with suppress(RuntimeError):  # the loop may be closed already
            self._loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        self._cancel_tasks()
        self._advance()

    def _cancel_tasks(self) -> None:
        self._cancelling = True
        self.window.stop()
        for task in tuple(self._tasks):
            task.cancel()


class CallOutcome(NamedTuple):
    """What a call returned, or the error it raised."""

    result: Any = None
    error: Exception | None = None


async def outcome_of(who: str, call: Callable[[T], Any], argument: T) -> CallOutcome:
    """What a call returns, awaited if it is awaitable, or the error it raises.

    That something it awaits was cancelled is such an error; a cancellation of the current task is not.
    """
    try:
        answer = call(argument)
        return CallOutcome(await answer if inspect.isawaitable(answer) else answer)
    except Exception as error:
        return CallOutcome(error=error)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return CallOutcome(error=RuntimeError(f"{who} awaited something that was cancelled"))


async def _stream(items: Items[T]) -> AsyncGenerator[T, None]:
    """The items as a generator; an asynchronous generator among them is closed with it."""
    if not isinstance(items, AsyncIterable):
        for item in items:
            yield item
        return
    async with aclosing(items) if isinstance(items, AsyncGenerator) else nullcontext():
        async for item in items:
            yield item
