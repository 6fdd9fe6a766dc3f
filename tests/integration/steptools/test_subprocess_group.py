"""Programs in their own process groups: what they return, and that nothing keeps running."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from queuemgr.base.errors import Aborted
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.steptools.lanes import Lane
from queuemgr.steptools.ordered_map import run_with_queue
from queuemgr.steptools.subprocess_group import ProgramFailed, run_program

pytestmark = pytest.mark.asyncio

PROC = Lane("proc", 2, 8)

STUBBORN = """
import os, signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if len(sys.argv) == 2:
    subprocess.Popen([sys.executable, "-c", sys.stdin.read(), sys.argv[1], "grandchild"])
open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
time.sleep(600)
"""
"""Ignores every signal it can, and starts a child that does too; each writes its pid to a directory."""


def alive(directory: Path) -> list[int]:
    pids = [int(path.name) for path in directory.iterdir()]
    return [pid for pid in pids if psutil.pid_exists(pid) and not zombie(pid)]


def zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def appear(directory: Path, count: int) -> None:
    async with asyncio.timeout(90):
        while len(list(directory.iterdir())) < count:
            await asyncio.sleep(0.02)


async def gone(directory: Path) -> None:
    """Killed processes without a waiting parent are reaped by init a moment later."""
    async with asyncio.timeout(30):
        while alive(directory):
            await asyncio.sleep(0.02)


def stubborn(directory: Path) -> list[str]:
    return [sys.executable, "-c", STUBBORN, str(directory)]


async def test_an_abort_from_a_thread_kills_stubborn_children_with_their_groups(tmp_path: Path):
    """On a time-out only the parent was stopped; the OCR program lived on."""
    signal_ = AbortSignal()

    async def worker(_item: int) -> bytes:
        return await run_program(stubborn(tmp_path), stdin=STUBBORN.encode())

    run = asyncio.create_task(run_with_queue(PROC, range(9), worker, signal=signal_))
    await appear(tmp_path, 4)
    assert len(alive(tmp_path)) == 4
    threading.Thread(target=signal_.abort, args=("stop",)).start()
    aborted = time.monotonic()
    with pytest.raises(Aborted):
        await run
    assert time.monotonic() - aborted < 60
    await gone(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


async def test_a_program_cancelled_while_it_starts_is_killed_too(tmp_path: Path):
    for _ in range(10):
        run = asyncio.create_task(run_program(stubborn(tmp_path), stdin=STUBBORN.encode()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert [p for p in psutil.Process().children(recursive=True) if "SIG_IGN" in str(p.cmdline())] == []
    await gone(tmp_path)


async def test_processes_a_program_leaves_running_are_killed_when_it_ends(tmp_path: Path):
    leaves = 'sleep 600 & echo $! > "$0/pid"; mv "$0/pid" "$0/$!"; echo done'
    assert await run_program(["sh", "-c", leaves, str(tmp_path)]) == b"done\n"
    await gone(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


async def test_input_and_output_may_be_larger_than_a_pipe():
    data = os.urandom(1 << 20)
    assert await run_program(["cat"], stdin=data) == data


async def test_a_program_need_not_read_its_standard_input():
    assert await run_program(["echo", "no"], stdin=bytes(1 << 22)) == b"no\n"


async def test_a_failed_program_is_reported_with_its_status_and_standard_error():
    with pytest.raises(ProgramFailed, match="sh ended with status 3: bad page") as failed:
        await run_program(["sh", "-c", "echo bad page >&2; exit 3"])
    assert failed.value.status == 3
