"""Running a program in its own process group, killed with everything it started.

Each call is one awaited child: when the await ends, by a result, an error, a cancellation or an abort,
the whole process group has been killed. `ordered_map` bounds how many run at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from queuemgr.base.errors import SluiceError

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
)
"""Numeric libraries read these once, when they are loaded; unset, each uses every processor."""

EXCERPT_BYTES = 500
"""How much of the end of a failed program's standard error goes into the exception."""

CHUNK_BYTES = 1 << 16

PIPES_SECONDS = 1.0
"""How long to wait for the pipes of a killed group to close; a process that left it may hold them open."""


class ProgramFailed(SluiceError):
    """A program exited with an error, or was killed by a signal it was not sent from here.

    `status` is its exit status, negative for a signal; `stderr` is the end of its standard error.
    """

    def __init__(self, name: str, status: int, stderr: str = "") -> None:
        self.name, self.status, self.stderr = name, status, stderr
        what = f"{name} ended with {status_name(status)}"
        super().__init__(f"{what}: {stderr}" if stderr else what)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.name, self.status, self.stderr))


def status_name(status: int) -> str:
    """`SIGKILL` for a process ended by a signal, `status 3` for one that ended itself."""
    with suppress(ValueError):
        return signal.Signals(-status).name
    return f"status {status}"


async def run_program(
    argv: Sequence[str], *, stdin: bytes = b"", environment: Mapping[str, str] | None = None
) -> bytes:
    """Run a program and return its standard output; `environment` replaces the inherited one.

    Raises `ProgramFailed` for any exit status but 0. Processes it leaves behind are killed. If it is
    cancelled while the program starts, it waits for the start, so that there is something to kill.
    """
    name = Path(argv[0]).name
    starting = asyncio.ensure_future(_Group.started(argv, environment))
    try:
        group = await asyncio.shield(starting)
        stdout, stderr = await _communicate(name, group, stdin)
        status = group.transport.get_returncode()
    finally:
        await (await starting).end()
    if status:
        raise ProgramFailed(name, status, stderr)
    return stdout


class _Group(SubprocessStreamProtocol):
    """A child that leads its own process group.

    `ended` is set when it has ended, even if another process holds its pipes open.
    """

    transport: asyncio.SubprocessTransport

    def __init__(self) -> None:
        super().__init__(limit=CHUNK_BYTES, loop=asyncio.get_running_loop())
        self.ended = asyncio.Event()

    @classmethod
    async def started(cls, argv: Sequence[str], environment: Mapping[str, str] | None) -> _Group:
        loop = asyncio.get_running_loop()
        starting = loop.subprocess_exec(cls, *argv, env=environment, start_new_session=True)
        transport, group = await starting
        group.transport = transport
        return group

    def process_exited(self) -> None:
        super().process_exited()
        self.ended.set()

    def kill(self) -> None:
        """SIGKILL the group; it keeps its id even when the leader has been reaped."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.transport.get_pid(), signal.SIGKILL)

    async def end(self) -> None:
        """Kill the group, close the pipes, and wait until the leader is reaped."""
        self.kill()
        unread = cast(asyncio.WriteTransport, self.transport.get_pipe_transport(0))
        if unread.get_write_buffer_size():
            unread.abort()
        self.transport.close()
        await self.ended.wait()


async def _communicate(name: str, group: _Group, given: bytes) -> tuple[bytes, str]:
    """Write and read until the leader has ended; then whatever else holds its pipes is killed."""
    output = asyncio.ensure_future(cast(asyncio.StreamReader, group.stdout).read())
    excerpt = asyncio.ensure_future(_tail_of(cast(asyncio.StreamReader, group.stderr)))
    pumps = (output, excerpt, asyncio.ensure_future(_write(cast(asyncio.StreamWriter, group.stdin), given)))
    try:
        await group.ended.wait()
        group.kill()
        _, unfinished = await asyncio.wait(pumps, timeout=PIPES_SECONDS)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
    if unfinished:
        raise ProgramFailed(name, 0, "a process it left behind holds its pipes open")
    return output.result(), excerpt.result()


async def _write(stdin: asyncio.StreamWriter, given: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # it need not read its standard input
        stdin.write(given)
        await stdin.drain()
    stdin.close()


async def _tail_of(stream: asyncio.StreamReader) -> str:
    tail = b""
    while chunk := await stream.read(CHUNK_BYTES):
        tail = (tail + chunk)[-EXCERPT_BYTES:]
    return tail.decode(errors="replace").strip()
