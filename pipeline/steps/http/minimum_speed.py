"""A least speed for a body: time-outs of single reads never notice a server that drips."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from queuemgr import StepFailed


@dataclass(frozen=True)
class MinimumSpeed:
    """So many bytes a second, on average over any `span` seconds; 0 asks for none."""

    bytes_per_second: float = 1024.0
    span: float = 30.0

    @property
    def quota(self) -> float:
        return self.bytes_per_second * self.span


@asynccontextmanager
async def at_least(speed: MinimumSpeed, source: str) -> AsyncIterator[Callable[[int], None]]:
    """Gives the function to tell of bytes that came. Each quota must be full within a span of the
    one before it, or the block ends with StepFailed("timeout")."""
    if not speed.quota:
        yield lambda count: None
        return
    got = 0
    try:
        async with asyncio.timeout(speed.span) as window:

            def count(came: int) -> None:
                nonlocal got
                got += came
                if got >= speed.quota:
                    got = 0
                    window.reschedule(asyncio.get_running_loop().time() + speed.span)

            yield count
    except TimeoutError as error:
        if not window.expired():
            raise
        raise StepFailed(
            "timeout",
            f"{source} sent {got} bytes in {speed.span:g} s; "
            f"the least allowed is {speed.bytes_per_second:g} a second",
        ) from error
