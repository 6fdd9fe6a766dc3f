"""The child process that draws pages, and the pipes to it: demands go in, lines and pictures come out."""

from __future__ import annotations

import asyncio
import json
import os
import signal as signals
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from pipeline.steps.pdf import sandbox
from pipeline.steps.pdf.sandbox import Limits, child_environment, own_limits

SCRIPT = Path(__file__).with_name("render_child.py")

CPU_SECONDS = 24 * 3600.0
"""A second fence only: a document has any number of pages, and each is timed from outside."""

Demand = tuple[int, int]
"""A page's number, and its quarter turns counter-clockwise."""


@dataclass(frozen=True)
class Drawing:
    """How pages are drawn: `longest_px` the longest side (olmOCR's), `form` is `webp` or `pgm`.

    `page_seconds` is wall time for one page, `memory_bytes` the address space of
    each of so many `children`.
    """

    longest_px: int = 1288
    form: str = "webp"
    page_seconds: float = 30.0
    memory_bytes: int = 1 << 30
    children: int = 1


class Drawer:
    """One child with one document; to be closed, and used in one event loop.

    Making it raises `OSError` where the machine has no room for another process or pipe.
    """

    def __init__(self, pdf: Path, drawing: Drawing) -> None:
        with ExitStack() as on_error:
            self._start(pdf, drawing, on_error)
            on_error.pop_all()

    def _start(self, pdf: Path, drawing: Drawing, on_error: ExitStack) -> None:
        demands, self._demands = pipe_closed_by(on_error)
        pictures, into = pipe_closed_by(on_error)
        order = {
            "pdf": str(pdf.resolve()),
            "longest_px": drawing.longest_px,
            "format": drawing.form,
            "demands": demands,
            "pictures": into,
        }
        limits = Limits(drawing.page_seconds, CPU_SECONDS, drawing.memory_bytes, output_bytes=0)
        self._request = json.dumps({"limits": own_limits(limits), "order": order})
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", str(sandbox.CHILD), str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=child_environment(limits.threads),
            pass_fds=(demands, into),
            start_new_session=True,
        )
        os.close(demands)
        os.close(into)
        self._input = cast(IO[bytes], self._process.stdin)
        self._output = cast(IO[bytes], self._process.stdout)
        self._pictures = os.fdopen(pictures, "rb", buffering=0)
        self._transports: list[asyncio.BaseTransport] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    async def opened(self) -> dict[str, Any]:
        """Send the order; the first line is the number of pages, or why there is none."""
        self._lines = await self._stream(self._output)
        self._bytes = await self._stream(self._pictures)
        with suppress(BrokenPipeError):
            self._input.write(self._request.encode() + b"\n")
            self._input.flush()
        return await self.line()

    async def _stream(self, pipe: IO[bytes]) -> asyncio.StreamReader:
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._transports.append(transport)
        return reader

    def ask(self, demand: Demand) -> None:
        """Never blocks: a window of short lines is far below what the pipe holds."""
        line = json.dumps({"page": demand[0], "turn": demand[1]}).encode() + b"\n"
        with suppress(BrokenPipeError):
            os.write(self._demands, line)

    async def line(self) -> dict[str, Any]:
        """The next line; {} when the child is gone. Raises `ValueError` for nonsense."""
        raw = await self._lines.readline()
        line = json.loads(raw) if raw else {}
        if not isinstance(line, dict):
            raise ValueError("no object")
        return line

    async def picture(self, size: int) -> bytes:
        """The bytes that belong to the line before. Raises `IncompleteReadError`."""
        return await self._bytes.readexactly(size)

    def kill(self) -> None:
        """SIGKILL the group, from any thread; nothing once it was reaped (its id may be reused)."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signals.SIGKILL)

    def close(self) -> None:
        """Kill the group and reap it; a killed process is gone within milliseconds."""
        self.kill()
        self._process.wait()
        for transport in self._transports:
            transport.close()
        for pipe in (self._input, self._output, self._pictures):
            with suppress(BrokenPipeError):
                pipe.close()
        os.close(self._demands)


def pipe_closed_by(stack: ExitStack) -> tuple[int, int]:
    """Both ends of a new pipe."""
    ends = os.pipe()
    for end in ends:
        stack.callback(os.close, end)
    return ends
