"""A minimum speed for a response body: read timeouts never notice a server that sends a trickle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from queuemgr import StepFailed


@dataclass(frozen=True)
class MinimumSpeed:
    """Bytes a second, on average over `span` seconds; 0 for no minimum."""

    bytes_per_second: float = 1024.0
    span: float = 30.0

    @property
    def quota(self) -> float:
        return self.bytes_per_second * self.span


@asynccontextmanager
async def at_least(speed: MinimumSpeed, source: str) -> AsyncIterator[Callable[[int], None]]:
    """Yields a function to call with the number of bytes received. Each quota of bytes must arrive
    within a span of the one before, or the block ends with StepFailed("timeout")."""
    if not speed.quota:
        yield lambda count: None
        return
    received = 0
    try:
        async with asyncio.timeout(speed.span) as window:

            def count(size: int) -> None:
                nonlocal received
                received += size
                if received >= speed.quota:
                    received = 0
                    window.reschedule(asyncio.get_running_loop().time() + speed.span)

            yield count
    except TimeoutError as error:
        if not window.expired():
            raise
        raise StepFailed(
            "timeout",
            f"{source} sent {received} bytes in {speed.span:g} s; "
            f"the minimum is {speed.bytes_per_second:g} bytes a second",
        ) from error
