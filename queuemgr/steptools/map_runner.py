"""The tries of one windowed run: what takes items, runs them, waits for the next try, and cancels.

The effects only, on asyncio: what may be done next is decided by `map_window`.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Coroutine, Iterable
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.retry_policy import Policy, decide
from queuemgr.steptools.map_window import Bounds, ItemAttempt, MapWindow

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

SHARE_SECONDS = 0.001
"""How long workers that never wait may have the loop before others on it get a turn."""

CANCEL_SECONDS = 1.0
"""How long what was cancelled has for its clean-up; then it is cancelled a second time."""

LAST_SECONDS = 0.5
"""How long it then has. Whatever still goes on has refused twice, and is left behind with a word
in the log: an abort ends within these two and not later."""


@dataclass(frozen=True, slots=True)
class Finished(Generic[T, R]):
    """What one item came to: its place (from 0), how often it was tried, a result or an error."""

    seq: int
    item: T
    attempts: int
    result: R | None = None
    error: Exception | None = None


Backoff = Callable[[Exception, int], float]
Retryable = Callable[[Exception], bool]


def doubling(base: float = 1.0, ceiling: float = 60.0, jitter: float = 1.0) -> Backoff:
    """A wait of `min(ceiling, base * 2**(attempt-1))` seconds and up to `jitter` more.

    A `retry_after` carried by the error (as `StepFailed` does) takes the place of the power.
    """

    def wait(error: Exception, attempt: int) -> float:
        policy = Policy(attempt + 1, base, ceiling, jitter)
        return decide(policy, attempt, retry_after=getattr(error, "retry_after", None)).wait

    return wait


def any_error(_error: Exception) -> bool:
    """Every error is worth another try."""
    return True


@dataclass(frozen=True)
class Retries:
    """How often a failed item is tried again, which errors are worth it, and how long to wait."""

    most: int
    backoff: Backoff
    retryable: Retryable

    def wait(self, error: Exception, attempts: int) -> float | None:
        """Seconds until the next try after so many, or None when there is none; at once when the
        rule gives less than nothing.

        Raises `ValueError` when it gives no finite number: neither "at once" nor "never" is meant.
        """
        if attempts > self.most or not self.retryable(error):
            return None
        seconds = self.backoff(error, attempts)
        if not math.isfinite(seconds):
            raise ValueError(f"the backoff gave {seconds} seconds to wait") from error
        return max(0.0, seconds)


Worker = Callable[[T], Awaitable[R]]
Items = Iterable[T] | AsyncIterable[T]


class AttemptRunner(Generic[T, R]):
    """The effects: takes items, runs tries, waits, cancels. One run, one event loop.

    `keep` is given each final result, and says whether it counts as a success.
    """

    def __init__(
        self,
        bounds: Bounds,
        items: Items[T],
        worker: Worker[T, R],
        retries: Retries,
        signal: AbortSignal,
        *,
        keep: Callable[[Finished[T, R]], Awaitable[bool]],
        fail_fast: bool,
    ) -> None:
        self.plan: MapWindow[T] = MapWindow(bounds)
        self.source_error: Exception | None = None
        self._items, self._worker, self._retries = items, worker, retries
        self._signal, self._keep, self._fail_fast = signal, keep, fail_fast
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._room, self._news = asyncio.Event(), asyncio.Event()
        self._awaited: Callable[[], bool] = bool
        self._broken: BaseException | None = None
        self._leaving = False
        self._hooks = ExitStack()

    async def __aenter__(self) -> None:
        self._signal.raise_if_aborted()
        self._hooks.enter_context(self._signal.hooked(self._aborted_somewhere))
        self._start(self._feed())

    async def __aexit__(self, *_: object) -> None:
        self._hooks.close()
        self._leaving = True
        self.plan.stop()
        if self._timer is not None:
            self._timer.cancel()
        for seconds in (CANCEL_SECONDS, LAST_SECONDS):
            self._cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=seconds)
        if self._tasks:
            logger.warning("%d cancelled tasks go on all the same", len(self._tasks))

    async def until(self, awaited: Callable[[], bool]) -> None:
        """Wait until `awaited` or the run is over. Raises `Aborted`, also when it is both."""
        self._awaited = awaited
        while not (awaited() or self.plan.over or self._ends_at_once()):
            self._news.clear()
            await self._news.wait()
        if self._broken is not None:
            raise self._broken
        self._signal.raise_if_aborted()

    def hand(self) -> None:
        """The oldest item's result goes to the reader: the source may go on."""
        self.plan.hand()
        self._let_source_go_on()

    def look(self) -> None:
        """Do what may be done now: start tries, let the source go on, wake the reader."""
        ends_at_once = self._ends_at_once()
        if not ends_at_once:
            self._start_tries()
        self._set_timer()
        self._let_source_go_on()
        if ends_at_once or self.plan.over or self._awaited():
            self._news.set()

    def _start_tries(self) -> None:
        while (tried := self.plan.start(self._loop.time())) is not None:
            self._start(self._slot(tried))

    def _let_source_go_on(self) -> None:
        if not self._room.is_set() and self.plan.may_take:
            self._room.set()

    def _ends_at_once(self) -> bool:
        return self._broken is not None or self._signal.aborted

    def _set_timer(self) -> None:
        at = self.plan.wakes_at()
        if self._timer is not None and self._timer.when() == at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if at is None else self._loop.call_at(at, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self.look()

    async def _feed(self) -> None:
        """Take from the source whenever the plan has room."""
        try:
            async with aclosing(_stream(self._items)) as stream:
                await self._until_room()
                async for item in stream:
                    self.plan.take(item)
                    self._start_tries()
                    await self._until_room()
        except Exception as error:
            self.source_error = error
            if self._fail_fast:
                self.plan.stop()
        self.plan.exhaust()
        self.look()

    async def _until_room(self) -> None:
        while not self.plan.may_take:
            self._room.clear()
            await self._room.wait()

    async def _slot(self, tried: ItemAttempt[T] | None) -> None:
        """Use one slot for a try, then for the next, until there is none."""
        yields_at = self._loop.time() + SHARE_SECONDS
        while tried is not None and not self._ends_at_once():
            await self._try(tried)
            now = self._loop.time()
            tried = None if self._ends_at_once() else self.plan.start(now)
            self.look()
            if tried is not None and now >= yields_at:
                await asyncio.sleep(0)
                yields_at = now + SHARE_SECONDS

    async def _try(self, tried: ItemAttempt[T]) -> None:
        if self.plan.stopped:
            await self._leave(tried)
            return
        result = await self._worked(tried)
        if self._signal.aborted:
            return
        wait = None if tried.error is None or self.plan.stopped else self._wait(tried)
        if wait is None:
            await self._end(tried, result)
        else:
            self.plan.again(tried, self._loop.time() + wait)

    async def _leave(self, tried: ItemAttempt[T]) -> None:
        """After a stop: a failure that waited for its next try is final, the rest never ran."""
        if tried.error is None:
            self.plan.finish()
        else:
            await self._end(tried, None)

    async def _worked(self, tried: ItemAttempt[T]) -> R | None:
        """Run the worker; the error of this try, if any, is left on `tried`."""
        tried.attempts += 1
        try:
            result = await self._worker(tried.item)
        except Exception as error:
            tried.error = error
        except asyncio.CancelledError:
            if was_cancelled():
                raise
            tried.error = RuntimeError("the work on this item was cancelled from within")
        else:
            tried.error = None
            return result
        return None

    def _wait(self, tried: ItemAttempt[T]) -> float | None:
        """Seconds until the next try; a rule that raises is the item's failure."""
        assert tried.error is not None
        try:
            return self._retries.wait(tried.error, tried.attempts)
        except Exception as error:
            tried.error = error
            return None

    async def _end(self, tried: ItemAttempt[T], result: R | None) -> None:
        """The item's final result. A failure stops further starts before anyone is told of it."""
        error, tried.error = tried.error, None  # its frames hold `tried`: no cycle to be collected
        if error is not None:
            self._stop_if_fast()
        finished = Finished(tried.seq, tried.item, tried.attempts, result, error)
        if not await self._keep(finished):
            self._stop_if_fast()
        self.plan.finish()

    def _stop_if_fast(self) -> None:
        if self._fail_fast:
            self.plan.stop()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Look at how a task ended: one that broke, or was cancelled by others, ends the run.

        Also after a failure that stopped the starts: its slot would count as running for ever.
        """
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if task.cancelled() and not self._leaving:
            error = RuntimeError("a task of this run was cancelled from outside")
        if error is not None:
            self._broken = self._broken or error
            self.look()

    def _aborted_somewhere(self) -> None:
        """The signal's hook, called in whichever thread set it."""
        with suppress(RuntimeError):  # the loop may have closed in the meantime
            self._loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        self._leaving = True
        self.plan.stop()
        self._cancel()
        self.look()

    def _cancel(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()


def was_cancelled() -> bool:
    """Whether somebody cancelled this task, and not something inside it an inner wait."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def _stream(items: Items[T]) -> AsyncGenerator[T, None]:
    """Any items as a stream; an asynchronous generator among them is closed with it."""
    if not isinstance(items, AsyncIterable):
        for item in items:
            yield item
    elif isinstance(items, AsyncGenerator):
        async with aclosing(items):
            async for item in items:
                yield item
    else:
        async for item in items:
            yield item
