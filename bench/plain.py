"""Plain Celery, as its users write it: the baseline of the comparison."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

from celery import Celery

app = Celery("plain", broker=os.environ["BROKER_URL"])
app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False)
_done = itertools.count(1)


@app.task(name="plain.work", queue="plain")
def work(seconds: float, trace: str, last: int) -> None:
    """Wait like a probe, and write the trace a probe writes; marks are the first, the one after
    a tenth, and the last."""
    started = time.monotonic_ns()
    if seconds:
        time.sleep(seconds)
    if trace:
        _append(trace, started, "start")
        _append(trace, time.monotonic_ns(), "end")
    number = next(_done)
    if number in (1, last // 10, last):
        with Path(os.environ["PLAIN_MARKS"]).open("a") as marks:
            marks.write(f"{time.monotonic_ns()}\n")


def _append(trace: str, moment: int, event: str) -> None:
    with Path(trace).open("ab", buffering=0) as file:
        file.write(b'{"event":"%s","monotonic_ns":%d}\n' % (event.encode(), moment))
