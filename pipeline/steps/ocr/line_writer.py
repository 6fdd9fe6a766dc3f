"""Write lines to a file descriptor from an event loop, without blocking it.

A daemon thread writes, so that a reader that has stopped reading cannot keep the program from ending.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from contextlib import suppress


class LineWriter:
    """Writes one line at a time, in order; a slow reader slows down the caller that awaits it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, daemon=True).start()

    async def write(self, line: str) -> None:
        """Return when the line is written. Raises `BrokenPipeError`, or another `OSError`."""
        written: asyncio.Future[None] = self._loop.create_future()
        self._lines.put((line.encode("utf-8", "replace") + b"\n", written))
        await written

    def _run(self) -> None:
        while True:
            data, written = self._lines.get()
            error = self._written(data)
            with suppress(RuntimeError):  # the loop may have closed in the meantime
                self._loop.call_soon_threadsafe(_complete, written, error)

    def _written(self, data: bytes) -> OSError | None:
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            return error
        return None


def _complete(written: asyncio.Future[None], error: OSError | None) -> None:
    if written.done():
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)
