"""A TCP proxy between the fleet and its broker that can stop forwarding, and resume."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

CHUNK = 64 * 1024


class BrokerProxy:
    """Listens on its own port as soon as it is created, in its own thread."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = 0
        self.open()

    def stall(self) -> None:
        """Forward nothing and answer nothing; connections stay open."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def flow(self) -> None:
        self._loop.call_soon_threadsafe(self._flowing.set)

    def open(self) -> None:
        """Listen, always on the same port."""
        self._server = self._wait_for(self._listen())
        self.port = int(self._server.sockets[0].getsockname()[1])

    def shut(self) -> None:
        """Refuse new connections, as a machine does without a listener."""
        self._loop.call_soon_threadsafe(self._server.close)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    @staticmethod
    async def _cancel_all() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _wait_for(self, work: Coroutine[Any, Any, asyncio.Server]) -> asyncio.Server:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):  # cancelled at the end of the run
            await self._flowing.wait()
            there = await asyncio.open_connection("127.0.0.1", self._to_port)
            await asyncio.gather(self._pump(reader, there[1]), self._pump(there[0], writer))
        writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
