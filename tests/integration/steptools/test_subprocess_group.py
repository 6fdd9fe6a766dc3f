"""Children in groups of their own: what they give back, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from queuemgr.base.errors import Aborted, StepFailed
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.steptools.lanes import Lane
from queuemgr.steptools.ordered_map import run_with_queue
from queuemgr.steptools.subprocess_group import (
    THREAD_VARIABLES,
    ProgramFailed,
    in_process,
    run_program,
)
from tests.patience import patient

pytestmark = [pytest.mark.asyncio, pytest.mark.any_database]

PROC = Lane("proc", 2, 8)

STUBBORN = """
import os, signal, subprocess, sys, time
for heard in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(heard, signal.SIG_IGN)
if len(sys.argv) == 2:
    subprocess.Popen([sys.executable, "-c", sys.stdin.read(), sys.argv[1], "grandchild"])
open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
time.sleep(600)
"""
"""Hears no polite signal, and has a child that hears none; each leaves its number in a directory."""


def alive(directory: Path) -> list[int]:
    pids = [int(path.name) for path in directory.iterdir()]
    return [pid for pid in pids if psutil.pid_exists(pid) and not zombie(pid)]


def zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def appear(directory: Path, count: int) -> None:
    async with asyncio.timeout(patient(30)):
        while len(list(directory.iterdir())) < count:
            await asyncio.sleep(0.02)


async def gone(directory: Path) -> None:
    """Killed processes that nobody waits for are reaped by init a moment later."""
    async with asyncio.timeout(patient(10)):
        while alive(directory):
            await asyncio.sleep(0.02)


def stubborn(directory: Path) -> list[str]:
    return [sys.executable, "-c", STUBBORN, str(directory)]


async def test_an_abort_from_a_thread_kills_stubborn_children_with_their_groups(tmp_path: Path):
    """P7-13: on a time-out only the parent was stopped; the OCR program lived on."""
    signal_ = AbortSignal()

    async def worker(_item: int) -> bytes:
        return await run_program(stubborn(tmp_path), given=STUBBORN.encode())

    run = asyncio.create_task(run_with_queue(PROC, range(9), worker, signal=signal_))
    await appear(tmp_path, 4)
    assert len(alive(tmp_path)) == 4
    threading.Thread(target=signal_.abort, args=("stop",)).start()
    aborted = time.monotonic()
    with pytest.raises(Aborted):
        await run
    assert time.monotonic() - aborted < patient(20)
    await gone(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


async def test_a_program_cancelled_while_it_starts_is_killed_too(tmp_path: Path):
    for _ in range(10):
        run = asyncio.create_task(run_program(stubborn(tmp_path), given=STUBBORN.encode()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert [
        p for p in psutil.Process().children(recursive=True) if "SIG_IGN" in str(p.cmdline())
    ] == []
    await gone(tmp_path)


async def test_what_a_program_leaves_running_ends_with_it(tmp_path: Path):
    leaves = 'sleep 600 & echo $! > "$0/pid"; mv "$0/pid" "$0/$!"; echo done'
    assert await run_program(["sh", "-c", leaves, str(tmp_path)]) == b"done\n"
    await gone(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


async def test_a_program_is_given_bytes_and_gives_back_bytes_however_many():
    given = os.urandom(1 << 20)
    assert await run_program(["cat"], given=given) == given


async def test_a_program_need_not_read_what_it_is_given():
    assert await run_program(["echo", "no"], given=bytes(1 << 22)) == b"no\n"


async def test_a_program_that_fails_says_how_and_its_last_words():
    with pytest.raises(ProgramFailed, match="sh ended with status 3: bad page") as failed:
        await run_program(["sh", "-c", "echo bad page >&2; exit 3"])
    assert failed.value.status == 3


def total(numbers: list[int]) -> int:
    print("a function may print")
    return sum(numbers)


def refuse() -> None:
    raise StepFailed("damaged", "no page can be read", http_status=500)


class Unreadable(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def raise_unreadable() -> None:
    raise Unreadable("can", "not")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def seen_threads() -> list[str | None]:
    return [os.environ.get(name) for name in THREAD_VARIABLES]


def hang(directory: str) -> None:
    (Path(directory) / str(os.getpid())).touch()
    time.sleep(600)


async def test_functions_run_in_processes_of_their_own_and_results_stand_in_order():
    async def worker(item: int) -> int:
        return await in_process(total, [item, 1])

    assert await run_with_queue(PROC, range(4), worker) == [1, 2, 3, 4]


async def test_what_a_function_raises_is_raised_here_with_what_it_carries():
    with pytest.raises(StepFailed, match="no page can be read") as failed:
        await in_process(refuse)
    assert (failed.value.kind, failed.value.http_status) == ("damaged", 500)


async def test_an_error_that_cannot_travel_comes_in_words():
    with pytest.raises(RuntimeError, match="Unreadable: cannot"):
        await in_process(raise_unreadable)


async def test_a_function_whose_process_dies_fails_and_says_by_what():
    with pytest.raises(ProgramFailed, match="the process of die ended with SIGKILL"):
        await in_process(die)


async def test_numeric_libraries_of_a_child_are_given_the_threads_of_its_lane():
    """P7-13: each OCR process took all cores."""
    assert await in_process(seen_threads, threads=3) == ["3"] * len(THREAD_VARIABLES)


async def test_a_cancelled_function_is_killed_at_once(tmp_path: Path):
    run = asyncio.create_task(in_process(hang, str(tmp_path)))
    await appear(tmp_path, 1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert alive(tmp_path) == []


async def test_a_function_s_process_ends_when_the_worker_is_killed(tmp_path: Path):
    code = (
        "import asyncio, sys; from queuemgr.steptools.subprocess_group import in_process;"
        "from tests.integration.steptools.test_subprocess_group import hang;"
        "asyncio.run(in_process(hang, sys.argv[1]))"
    )
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(tmp_path))
    await appear(tmp_path, 1)
    worker.kill()
    await worker.wait()
    await gone(tmp_path)
