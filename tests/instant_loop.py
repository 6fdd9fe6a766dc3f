"""An event loop whose clock jumps to the next timer: hours of waiting pass in no time.

A run that would wait for ever (a wake-up was lost) fails at once instead of hanging.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any


class InstantLoop(asyncio.SelectorEventLoop):
    """Time stands still while anything can run, then jumps to the earliest timer."""

    _now = 0.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]  # not in the stubs
        if not ready and scheduled:
            self._now = max(self._now, scheduled[0].when())
        if not ready and not scheduled and not self._stopping:  # type: ignore[attr-defined]  # as above
            raise AssertionError("nothing runs and no timer is set: a wake-up was lost")
        super()._run_once()  # type: ignore[misc]  # as above


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end; raises when a task is left over or an exception was looked at by nobody."""
    complaints: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=InstantLoop) as runner:
        loop = runner.get_loop()
        loop.set_exception_handler(lambda _loop, context: complaints.append(context))
        result = runner.run(_alone(work))
    gc.collect(1)  # what this run made is young
    assert complaints == []
    return result


async def _alone(work: Coroutine[Any, Any, Any]) -> Any:
    result = await work
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert left == set(), left
    return result
