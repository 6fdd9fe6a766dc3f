"""The event loop of a worker's async slots, in a thread of its own, and threads for sync code of its steps.

What a step leaves behind is undone: tasks it started are cancelled, and connections that its sync code opened
are closed. A step that blocks the loop holds up all of them, but no heartbeat, renewal or time limit, which
have threads of their own; the log says where it is.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import Context, ContextVar
from itertools import cycle
from typing import Any, NoReturn, TypeVar

from queuemgr.base.db_connection import discard_connections, open_blocks
from queuemgr.worker import background_thread

logger = logging.getLogger(__name__)

T = TypeVar("T")

DATABASE_THREADS = 8
"""Threads in which the ORM's asynchronous calls of all steps run: so many connections at most."""

OTHER_THREADS = 32
"""Threads for `asyncio.to_thread`, and as many for rules and stores."""

LOOK_SECONDS = 0.5
BLOCKED_LOOKS = 4
"""Looks in a row at which the loop has not answered the one before, when the log says so."""

LEFT_SECONDS = 1.0
"""How long tasks that a step left running get to end once they are cancelled."""

_started: ContextVar[set[asyncio.Task[Any]] | None] = ContextVar("started", default=None)
"""The tasks that the step of this context has started and that have not ended."""


class EventLoop:
    """The loop and its threads; made and used by one worker process."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_task_factory(_new_task)
        self.loop.set_default_executor(_ClosingExecutor(OTHER_THREADS, "sluice-to-thread"))
        self.for_endings = _ClosingExecutor(OTHER_THREADS, "sluice-async-endings")
        self._database = cycle([DatabaseThread(number) for number in range(DATABASE_THREADS)])
        self._asked = self._answered = self._silent = 0
        background_thread.start_vital("sluice-event-loop", self._run)
        background_thread.repeat("sluice-event-loop-watch", self._look, uses_database=False)

    def _run(self) -> NoReturn:
        self._thread = threading.get_ident()
        asyncio.set_event_loop(self.loop)
        while True:
            try:
                self.loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:  # of a task that a step started
                logger.warning("a task of an asynchronous step raised %s", type(error).__name__)

    def database_thread(self) -> StepsThread:
        """For the ORM's calls of one step, which all run in one thread."""
        return StepsThread(next(self._database))

    def _look(self) -> float:
        """See whether it answers; a process that was frozen looks as seldom as its loop answers."""
        if self._answered == self._asked:
            self._silent = 0
            self._asked += 1
            self.loop.call_soon_threadsafe(self._answer)
        else:
            self._silent += 1
        if self._silent == BLOCKED_LOOKS:
            frame = sys._current_frames().get(self._thread)
            where = "".join(traceback.format_stack(frame)) if frame else ""
            logger.warning(
                "the event loop has been blocked for over %g s: code of an asynchronous step neither awaits "
                "nor ends (asyncio.to_thread is for such code), and no other continues; it is here:",
                LOOK_SECONDS * BLOCKED_LOOKS, extra={"lines": where},
            )  # fmt: skip
        return LOOK_SECONDS

    def _answer(self) -> None:
        self._answered = self._asked


def _new_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    if (started := _started.get()) is not None:
        started.add(task)
        task.add_done_callback(started.discard)
    return task


def is_of_async_slots() -> bool:
    """Whether this coroutine runs on the loop of the async slots, and not on one of its own."""
    return asyncio.get_running_loop().get_task_factory() is _new_task


def start_step(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T], context: Context
) -> tuple[asyncio.Task[T], set[asyncio.Task[Any]]]:
    """Start a step in this context: its task, and where the tasks are that it starts."""
    started: set[asyncio.Task[Any]] = set()
    context.run(_started.set, started)
    return loop.create_task(coroutine, context=context), started


async def end_left(started: set[asyncio.Task[Any]], step: object) -> None:
    """Cancel the tasks that a step has started and not waited for."""
    if not (left := set(started)):
        return
    for task in left:
        task.cancel()
    _, running = await asyncio.wait(left, timeout=LEFT_SECONDS)
    logger.warning("%s: it left %d tasks running, which were cancelled", step, len(left))
    if running:
        logger.error("%s: %d of its tasks still run after they were cancelled", step, len(running))
    for task in left - running:
        if not task.cancelled():
            task.exception()  # or Python would say that nobody has asked for it


class _ClosingExecutor(ThreadPoolExecutor):
    """Threads that hold no database connection between two calls."""

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads, thread_name_prefix=name)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return super().submit(_closing, fn, *args, **kwargs)


def _closing(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    blocks = open_blocks()
    try:
        return function(*args, **kwargs)
    finally:
        discard_connections(blocks)


class DatabaseThread:
    """One thread for the ORM's calls of some steps; its connections are closed when none of them uses it."""

    def __init__(self, number: int) -> None:
        self.executor = ThreadPoolExecutor(1, thread_name_prefix=f"sluice-async-database-{number}")
        self.users = 0


class StepsThread(Executor):
    """The same, for one step."""

    def __init__(self, thread: DatabaseThread) -> None:
        self._thread, self._used = thread, False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        if not self._used:
            self._used = True
            self._thread.users += 1
        return self._thread.executor.submit(fn, *args, **kwargs)

    def leave(self) -> None:
        """The step has ended."""
        if self._used:
            self._thread.users -= 1
            if not self._thread.users:
                self._thread.executor.submit(discard_connections, 0)


def wait_until(done: Callable[[], bool], seconds: float) -> bool:
    """Wait in another thread for what the loop does; false if it takes longer."""
    until = time.monotonic() + seconds
    while not done():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
