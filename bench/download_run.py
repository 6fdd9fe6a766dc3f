"""One run of `bench.downloads`, in its own process so that its peak memory can be measured.

Reads its parameters as JSON from the command line; prints the measurements as JSON.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.child import request
from pipeline.steps.fetch.download import FetchOptions
from pipeline.steps.fetch.fetch import Fetched, fetch
from pipeline.steps.http.client import HttpClient, HttpOptions
from queuemgr.flows.abort_signal import NEVER

PAUSE = 0.005
"""Seconds between the state changes that are timed."""


def main() -> None:
    parameters = request("bench.download_run", __doc__, run="nothing", seconds=3)
    runs = {"ours": ours, "bare httpx": bare, "nothing": nothing}
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        root, delays = Path(folder), list[float]()
        with changing_states(root / "states.sqlite3", delays):
            began = time.monotonic()
            runs[parameters["run"]](parameters, root)
            seconds = time.monotonic() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    json.dump({"seconds": seconds, "delays": delays, "peak_mib": peak}, sys.stdout)


def ours(parameters: dict[str, Any], root: Path) -> None:
    """As the workers do: a thread waits for each download, which is checked, hashed and written to disk."""
    client = HttpClient(HttpOptions(max_connections=parameters["connections"]))
    options = FetchOptions(allow_private=True)

    def one(number: int) -> None:
        got = fetch(f"{parameters['url']}/{number}.pdf", root, options, client, NEVER)
        assert isinstance(got, Fetched)
        assert got.size == parameters["size"]
        got.path.unlink()

    with ThreadPoolExecutor(parameters["connections"]) as threads:
        list(threads.map(one, range(parameters["count"])))
    client.close()


def bare(parameters: dict[str, Any], root: Path) -> None:
    """The HTTP library alone: the body is read and discarded."""
    asyncio.run(_bare(parameters))


async def _bare(parameters: dict[str, Any]) -> None:
    limits = httpx.Limits(max_connections=parameters["connections"])
    numbers = iter(range(parameters["count"]))
    async with httpx.AsyncClient(limits=limits, timeout=60, trust_env=False) as client:

        async def some() -> None:
            for number in numbers:
                async with client.stream("GET", f"{parameters['url']}/{number}.pdf") as response:
                    size = sum([len(piece) async for piece in response.aiter_raw()])
                    assert size == parameters["size"]

        await asyncio.gather(*(some() for _ in range(parameters["connections"])))


def nothing(parameters: dict[str, Any], root: Path) -> None:
    """How long state changes take when nothing else runs."""
    time.sleep(parameters["seconds"])


@contextmanager
def changing_states(path: Path, delays: list[float]) -> Iterator[None]:
    """While the block runs, a thread commits one state change after another; `delays` gets the milliseconds
    by which each was late."""
    stop = threading.Event()

    def change() -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as link:
            link.execute("PRAGMA journal_mode=WAL")
            link.execute("PRAGMA synchronous=NORMAL")
            link.execute("CREATE TABLE execution (state INTEGER)")
            link.execute("INSERT INTO execution VALUES (0)")
            due = time.monotonic() + PAUSE
            while not stop.wait(max(0.0, due - time.monotonic())):
                link.execute("UPDATE execution SET state = state + 1")
                delays.append((time.monotonic() - due) * 1000)
                due = time.monotonic() + PAUSE

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


if __name__ == "__main__":
    main()
