"""What a task of a peer writes: when the first, the one after a tenth and the last one ended, as
`bench.plain` does."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from pathlib import Path

_done = itertools.count(1)


async def work(seconds: float, trace: str, last: int) -> None:
    """Wait like a probe, and write the trace a probe writes."""
    started = time.monotonic_ns()
    if seconds:
        await asyncio.sleep(seconds)
    if trace:
        with Path(trace).open("ab", buffering=0) as file:
            for event, moment in (("start", started), ("end", time.monotonic_ns())):
                file.write(f'{{"event":"{event}","monotonic_ns":{moment}}}\n'.encode())
    if next(_done) in (1, last // 10, last):
        with Path(os.environ["BENCH_MARKS"]).open("a") as marks:
            marks.write(f"{time.monotonic_ns()}\n")
