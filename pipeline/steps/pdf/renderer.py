"""The child process that renders pages: requests go in, lines and pictures come out."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal as signals
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from pipeline.steps.pdf import sandbox
from pipeline.steps.pdf.drawing_time import DrawingLimits
from pipeline.steps.pdf.how_it_ended import ChildProcess
from pipeline.steps.pdf.sandbox import ResourceLimits, child_environment, request_of

SCRIPT = Path(__file__).with_name("render_child.py")

CPU_SECONDS = 24 * 3600.0
"""A backup only: the parent times each page, and a document may have any number of pages."""

PIPE_BYTES = 1 << 20
"""What a pipe of pictures holds, where the system allows it: else each is read in many pieces."""

RenderRequest = tuple[int, int]
"""A page number, and quarter turns counter-clockwise."""


@dataclass(frozen=True)
class RenderOptions:
    """How pages are rendered: `longest_px` for the longest side (olmOCR's), `format` `jpeg` or `pgm`.

    `limits`: the time drawing may take; `memory_bytes`: address space of each of the `children`; `passes`:
    formats in which a page that is one picture is passed on as it is, of `jpeg` and `png`.
    """

    longest_px: int = 1288
    format: str = "jpeg"
    limits: DrawingLimits = field(default_factory=DrawingLimits)
    memory_bytes: int = 1 << 30
    children: int = 1
    passes: tuple[str, ...] = ()


class RenderProcess:
    """One child with one document, used in one event loop; must be closed.

    Raises `OSError` if the machine cannot create another process or pipe.
    """

    def __init__(self, pdf: Path, render: RenderOptions) -> None:
        with ExitStack() as on_error:
            self._start(pdf, render, on_error)
            on_error.pop_all()

    def _start(self, pdf: Path, render: RenderOptions, on_error: ExitStack) -> None:
        requests, self._requests = pipe_closed_by(on_error)
        pictures, into = pipe_closed_by(on_error)
        if sys.platform == "linux":
            with suppress(OSError):
                fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        job = {
            "pdf": str(pdf.resolve()),
            "longest_px": render.longest_px,
            "format": render.format,
            "passes": render.passes,
            "requests": requests,
            "pictures": into,
        }
        limits = ResourceLimits(render.limits.page_seconds, CPU_SECONDS, render.memory_bytes, output_bytes=0)
        self._request, self._memory_bytes = request_of(job, limits), render.memory_bytes
        self._process = ChildProcess(
            [sys.executable, "-I", "-B", str(sandbox.CHILD), str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=child_environment(limits.threads),
            pass_fds=(requests, into),
            start_new_session=True,
        )
        os.close(requests)
        os.close(into)
        self._input = cast(IO[bytes], self._process.stdin)
        self._output = cast(IO[bytes], self._process.stdout)
        self._pictures = os.fdopen(pictures, "rb", buffering=0)
        self._transports: list[asyncio.BaseTransport] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    async def opened(self) -> dict[str, Any]:
        """Send the job; returns the first line: the number of pages, or why the file is refused."""
        self._lines = await self._stream(self._output)
        self._bytes = await self._stream(self._pictures, PIPE_BYTES)
        with suppress(BrokenPipeError):
            self._input.write(self._request.encode() + b"\n")
            self._input.flush()
        return await self.line()

    async def _stream(self, pipe: IO[bytes], limit: int = 1 << 16) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=limit)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._transports.append(transport)
        return reader

    def ask(self, request: RenderRequest) -> None:
        """Send a request. Never blocks: the pipe holds far more than a window of short lines."""
        line = json.dumps({"page": request[0], "quarters": request[1]}).encode() + b"\n"
        with suppress(BrokenPipeError):
            os.write(self._requests, line)

    async def line(self) -> dict[str, Any]:
        """The next line; {} if the child has ended. Raises `ValueError` for invalid output."""
        raw = await self._lines.readline()
        try:
            line = json.loads(raw) if raw else {}
        except RecursionError as error:
            raise ValueError("JSON in JSON, too deep") from error
        if not isinstance(line, dict):
            raise ValueError("not a JSON object")
        return line

    async def picture(self, size: int) -> bytes:
        """The picture announced by the last line. Raises `IncompleteReadError`."""
        return await self._bytes.readexactly(size)

    def kill(self) -> None:
        """SIGKILL the group, from any thread; does nothing once it is reaped (its id may be reused)."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signals.SIGKILL)

    @property
    def ran_out_of_memory(self) -> bool:
        """Once it is closed."""
        return self._process.ended().ran_out_of(self._memory_bytes)

    def close(self) -> None:
        """Kill the group and reap it; a killed process is gone within milliseconds."""
        self.kill()
        self._process.ended()
        for transport in self._transports:
            transport.close()
        for pipe in (self._input, self._output, self._pictures):
            with suppress(BrokenPipeError):
                pipe.close()
        os.close(self._requests)


def pipe_closed_by(stack: ExitStack) -> tuple[int, int]:
    """Both ends of a new pipe."""
    ends = os.pipe()
    for end in ends:
        stack.callback(os.close, end)
    return ends
