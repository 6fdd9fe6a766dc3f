"""`python -m bench.downloads`: downloads per second over 128 connections, and what they delay meanwhile.

A server in its own process on this machine serves small PDFs as fast as it can. The result is compared with
the HTTP library alone, which stores nothing. State changes are timed in the downloading process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console

from bench import command_line
from bench.child import ROOT
from bench.measures import Aim, rows_of, spread, table, typical

OURS, BARE, IDLE = "ours", "bare httpx", "nothing"
AIM = Aim(0.3, at_least=True)
"""Lowest ratio to the library alone: ours hashes, checks and writes each file, and waits for the disk."""

DELAY_AIM = Aim(100.0)
"""Milliseconds a state change may be late at the 99th percentile during downloads."""


def main() -> None:
    options = _options()
    console = Console(width=120, stderr=options.json)
    console.print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start, "
                  f"{options.rounds} rounds")  # fmt: skip
    runs: dict[str, list[dict[str, Any]]] = {BARE: [], OURS: [], IDLE: []}
    with serving(options.size) as url:
        for _ in range(options.rounds):
            for name, found in runs.items():
                found.append(_run(name, url, options))
    console.print(_rates(runs, options), _delays(runs))
    if options.json:
        json.dump(runs, sys.stdout)


def _options() -> argparse.Namespace:
    parser = command_line.parser("bench.downloads", __doc__, "--rounds 1 --connections 64")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, alternating (default 3)")
    parser.add_argument("--count", type=int, default=4000, help="downloads a run (default 4000)")
    parser.add_argument("--size", type=int, default=200_000, help="bytes each (default 200000)")
    parser.add_argument("--connections", type=int, default=128, help="at once (default 128)")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    return parser.parse_args()


def _run(name: str, url: str, options: argparse.Namespace) -> dict[str, Any]:
    parameters = {
        "run": name, "url": url, "count": options.count, "size": options.size,
        "connections": options.connections, "seconds": 3,
    }  # fmt: skip
    command = [sys.executable, "-m", "bench.download_run", json.dumps(parameters)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def _rates(runs: dict[str, list[dict[str, Any]]], options: argparse.Namespace) -> object:
    rates = {name: [options.count / run["seconds"] for run in runs[name]] for name in (BARE, OURS)}
    cells = [
        [*row.cells(), str(spread([float(run["peak_mib"]) for run in runs[row.name]]))]
        for row in rows_of(rates, BARE, {OURS: AIM})
    ]
    title = f"{options.count} downloads of {options.size:,} bytes, {options.connections} at once"
    return table(title, ["", "rate", f"ratio to {BARE}", "", "peak memory, MiB"], cells)


def _delays(runs: dict[str, list[dict[str, Any]]]) -> object:
    cells = []
    for name, found in runs.items():
        late = typical([delay for run in found for delay in run["delays"]])
        verdict = DELAY_AIM.verdict(late.p99) if name == OURS else ""
        shown = [f"{late.median:.1f} ms", f"{late.p99:.1f} ms", f"{late.samples:,}"]
        cells.append([name, *shown, verdict])
    columns = ["meanwhile", "median", "99th percentile", "changes", ""]
    return table("How late a state change in the same process was", columns, cells)


@contextmanager
def serving(size: int) -> Iterator[str]:
    """The URL of a server in its own process, where every path is a PDF of this size."""
    command = [sys.executable, "-c", f"from bench.downloads import serve; serve({size})"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def serve(size: int) -> None:
    """Serve on a free port, which is printed, until the process is killed."""
    asyncio.run(_serve(size))


async def _serve(size: int) -> None:
    body = b"%PDF-1.7\n" + b"x" * (size - 16) + b"\n%%EOF\n"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nContent-Length: {len(body)}\r\n\r\n"
    answer = head.encode() + body

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer)
                await writer.drain()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    main()
