"""An answer that a coroutine waits for and another thread gives."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class LoopAnswer:
    """As an event, for one coroutine that waits; set from another thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future = self._loop.create_future()

    def set(self) -> None:
        with suppress(RuntimeError):  # its loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> None:
        await self._future
