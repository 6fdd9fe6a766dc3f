"""Programs and Python functions in process groups of their own, for the proc, cpu and model lanes.

Each call is one awaited child: when the await ends, by a result, an error, a cancel or an abort, its
whole group has been killed, children of its own included. `ordered_map` bounds how many there are.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from queuemgr.base.errors import SluiceError

R = TypeVar("R")

CHILD = Path(__file__).with_name("subprocess_child.py")

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
)
"""What numeric libraries read, once, when they are loaded; each takes every processor otherwise."""

EXCERPT_BYTES = 500
"""How much of a failed program's last words its error repeats."""

CHUNK_BYTES = 1 << 16

PIPES_SECONDS = 1.0
"""How long to wait for the pipes of a killed group to close; one that left the group may hold them."""


class ProgramFailed(SluiceError):
    """A child ended by itself without doing its work; `status` is negative for a signal."""

    def __init__(self, name: str, status: int, said: str = "") -> None:
        self.name, self.status, self.said = name, status, said
        told = f"{name} ended with {status_name(status)}"
        super().__init__(f"{told}: {said}" if said else told)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.name, self.status, self.said))


def status_name(status: int) -> str:
    """`SIGKILL` for a process ended by a signal, `status 3` for one that ended itself."""
    with suppress(ValueError):
        return signal.Signals(-status).name
    return f"status {status}"


def with_threads(threads: int) -> dict[str, str]:
    """This process's environment, for a child whose numeric libraries may use so many threads."""
    return {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))}


async def run_program(
    argv: Sequence[str], *, given: bytes = b"", environment: Mapping[str, str] | None = None
) -> bytes:
    """Run a program on `given` as its standard input; what it wrote to its standard output.

    Raises `ProgramFailed` when it does not end with 0. What it leaves running is killed.
    """
    return (await _run(Path(argv[0]).name, argv, given, environment, stays=False))[0]


async def in_process(function: Callable[..., R], *args: Any, threads: int = 1) -> R:
    """Call a function in a fresh interpreter: it takes processor time beside this one, and is killable.

    Function, arguments and result are pickled, so the function must be importable by name; the start
    costs some tens of milliseconds and its imports. `threads` bounds its numeric libraries. Raises
    what the function raised, or `ProgramFailed` when the child died.
    """
    name = f"the process of {getattr(function, '__qualname__', repr(function))}"
    argv = [sys.executable, "-I", "-B", str(CHILD)]
    request = pickle.dumps(sys.path) + pickle.dumps((function, args))
    answer, said = await _run(name, argv, request, with_threads(threads), stays=True)
    if not answer:
        raise ProgramFailed(name, 0, said)
    result, error = pickle.loads(answer)  # noqa: S301 - written by our own child
    if error is not None:
        raise error
    return cast(R, result)


class _Leader(SubprocessStreamProtocol):
    """Tells when the leader of a group has ended, whoever still holds its pipes."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(limit=CHUNK_BYTES, loop=loop)
        self.ended = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.ended.set()


@dataclass(frozen=True)
class _Group:
    """A child that leads a group of its own."""

    transport: asyncio.SubprocessTransport
    leader: _Leader

    @classmethod
    async def started(cls, argv: Sequence[str], environment: Mapping[str, str] | None) -> _Group:
        loop = asyncio.get_running_loop()
        return cls(
            *await loop.subprocess_exec(_Leader, *argv, env=environment, start_new_session=True)
        )

    def kill(self) -> None:
        """SIGKILL all of it; the leader may have been reaped, its others still go by its number."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.transport.get_pid(), signal.SIGKILL)

    async def end(self) -> None:
        """Kill it, let go of the pipes, and wait until the leader is reaped."""
        self.kill()
        unread = cast(asyncio.WriteTransport, self.transport.get_pipe_transport(0))
        if unread.get_write_buffer_size():
            unread.abort()
        self.transport.close()
        await self.leader.ended.wait()


async def _run(
    name: str,
    argv: Sequence[str],
    given: bytes,
    environment: Mapping[str, str] | None,
    *,
    stays: bool,
) -> tuple[bytes, str]:
    """Run a group to its end; its standard output, and the last of its standard error.

    A cancel that comes while it starts waits for the start, so that there is something to kill.
    """
    starting = asyncio.ensure_future(_Group.started(argv, environment))
    try:
        group = await asyncio.shield(starting)
        output, said = await _talk(name, group, given, stays=stays)
        status = group.transport.get_returncode()
    finally:
        await (await starting).end()
    if status:
        raise ProgramFailed(name, status, said)
    return output, said


async def _talk(name: str, group: _Group, given: bytes, *, stays: bool) -> tuple[bytes, str]:
    """Write and read at once until the leader ends; whoever else holds its pipes then ends too.

    With `stays` its standard input is left open meanwhile: its end tells the child that this
    process is gone.
    """
    stdin = cast(asyncio.StreamWriter, group.leader.stdin)
    stdout = cast(asyncio.StreamReader, group.leader.stdout)
    stderr = cast(asyncio.StreamReader, group.leader.stderr)
    output = asyncio.ensure_future(stdout.read())
    said = asyncio.ensure_future(_last_of(stderr))
    pumps = (output, said, asyncio.ensure_future(_write(stdin, given, stays=stays)))
    try:
        await group.leader.ended.wait()
        group.kill()
        _, unfinished = await asyncio.wait(pumps, timeout=PIPES_SECONDS)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
    if unfinished:
        raise ProgramFailed(name, 0, "what it left behind holds its pipes")
    return output.result(), said.result()


async def _write(stdin: asyncio.StreamWriter, given: bytes, *, stays: bool) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # it need not read what it is given
        stdin.write(given)
        await stdin.drain()
    if not stays:
        stdin.close()


async def _last_of(stream: asyncio.StreamReader) -> str:
    tail = b""
    while chunk := await stream.read(CHUNK_BYTES):
        tail = (tail + chunk)[-EXCERPT_BYTES:]
    return tail.decode(errors="replace").strip()
