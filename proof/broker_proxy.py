"""A TCP proxy between the fleet and its broker that can stop passing anything on, and go on later."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

CHUNK = 64 * 1024


class BrokerProxy:
    """Listens on a port of its own from its making on, in a thread of its own."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    def stall(self) -> None:
        """Pass nothing on, and answer nothing; connections stay as they are."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def flow(self) -> None:
        self._loop.call_soon_threadsafe(self._flowing.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    async def _listen(self) -> int:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
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
