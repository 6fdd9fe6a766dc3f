"""Serves papers under two hosts and records when each request comes and when it ends.

It is randomly slow, and sometimes reports that it is overloaded. A client that disconnects ends its request
at once, as at a real host.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

SLOWEST = 1.5
BUSY_SHARE = 0.1


class PaperServer:
    """Two ports, one log; every path is the same paper."""

    def __init__(self, paper: Path, log: Path, seed: int, address: str = "127.0.0.1") -> None:
        self.address = address
        self._paper, self._rng = paper.read_bytes(), Random(f"papers {seed}")
        self._log = log.open("ab", buffering=0)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.ports = [
            asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10) for _ in range(2)
        ]

    def url(self, number: int) -> str:
        """The URL of paper `number`."""
        return f"http://{self.address}:{self.ports[number % len(self.ports)]}/paper-{number}.pdf"

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._log.close()

    async def _listen(self) -> int:
        server = await asyncio.start_server(self._answer, self.address, 0)
        return int(server.sockets[0].getsockname()[1])

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, IndexError):
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].decode("ascii")
            port = writer.get_extra_info("sockname")[1]
            request = {"url": f"http://{self.address}:{port}{path}", "id": self._rng.getrandbits(64)}
            self._write({**request, "event": "start"})
            try:
                await self._serve(reader, writer)
            finally:
                self._write({**request, "event": "end"})
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._rng.uniform(0.1, SLOWEST)):
                await reader.read()
                return
        if self._rng.random() < BUSY_SHARE:
            writer.write(_head("503 Busy", b"", "Retry-After: 1\r\n"))
        else:
            kind = "Content-Type: application/pdf\r\n"
            writer.write(_head("200 OK", self._paper, kind) + self._paper)
        await writer.drain()

    def _write(self, line: Mapping[str, Any]) -> None:
        self._log.write(json.dumps({**line, "at": time.time()}).encode() + b"\n")


def _head(status: str, body: bytes, headers: str) -> bytes:
    length = f"Content-Length: {len(body)}\r\nConnection: close\r\n"
    return f"HTTP/1.1 {status}\r\n{headers}{length}\r\n".encode()
