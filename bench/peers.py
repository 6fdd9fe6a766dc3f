"""Other queues on PostgreSQL as contestants, from an environment that `make bench-peers` makes for them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from bench.child import ROOT
from bench.contestants import Load, Result, wait_for_marks
from bench.gaps import read
from bench.processor import spent

PYTHON = Path(sys.prefix) / "peers" / "bin" / "python"
APPS = {"Procrastinate": "procrastinate", "pgqueuer": "pgqueuer"}
"""Modules of `bench.peer_apps`, which are imported as a program of their users would be."""


def peer(app: str, load: Load, database_url: str, root: Path) -> Result:
    """Enqueue everything, then start a worker process with as many tasks at once as there are slots."""
    marks, trace = root / f"marks-{time.monotonic_ns()}", root / f"peer-{time.monotonic_ns()}"
    environment = {**os.environ, "DATABASE_URL": database_url, "BENCH_MARKS": str(marks),
                   "PYTHONWARNINGS": "ignore"}  # fmt: skip
    command = [
        str(PYTHON),
        "-c",
        f"import sys; from bench.peer_apps import {app} as app; app.main(sys.argv[1:])",
    ]
    enqueue = ["enqueue", str(load.count), str(load.seconds), str(trace) if load.traced else ""]
    subprocess.run([*command, *enqueue], env=environment, cwd=ROOT, check=True)
    process = subprocess.Popen(
        [*command, "work", str(load.slots)], env=environment, cwd=ROOT, stderr=subprocess.DEVNULL
    )
    try:
        wait_for_marks(marks, 2)
        began = spent()
        first, _, last = wait_for_marks(marks, 3)
        used = spent().since(began, load.count - load.count // 10)
    finally:
        process.kill()
        process.wait()
    rate = load.count / ((last - first) / 1e9 + load.seconds)
    return Result(rate, used, *(read(trace) if load.traced else ([], [])))
