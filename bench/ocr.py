"""`python -m bench.ocr`: pages per second through a vision endpoint that answers after a fixed time.

Compared with what the endpoint allows (pages at once / latency) and with one page at a time; with the
memory, including the child process that renders the pages.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import pypdfium2 as pdfium
from pypdf import PdfReader, PdfWriter
from rich.console import Console

from bench import command_line
from bench.measures import Aim, Spread, spread, table
from pipeline.steps.llm.client import Endpoint
from pipeline.steps.ocr.ocr import OcrOptions, ocr
from pipeline.steps.ocr.page_map import Pacing
from pipeline.steps.ocr.vision import RemoteOptions
from queuemgr.flows.abort_signal import NEVER

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "two-column.pdf"
"""The sample whose pages are repeated: dense text with values, as in papers."""

IDEAL_AIM, MANY_AIM = Aim(0.9, at_least=True), Aim(0.8, at_least=True)
MANY = 64
"""Pages at once from which the second aim holds."""

LOOK_SECONDS = 0.25
"""Seconds between two samples of the memory; to look for children takes as long as to send five pages."""


@dataclass(frozen=True)
class Run:
    """One document: pages per second, and peak memory in bytes (resident, child included)."""

    rate: float
    memory: int


@dataclass(frozen=True)
class Measured:
    """The results of several rounds.

    `share` is relative to pages at once / latency, but no more than one wave of pages after another can
    reach; `gain` is relative to one page at a time.
    """

    rate: Spread
    share: Spread
    gain: Spread
    drawing: Spread
    memory: int


def main() -> None:
    options = _options()
    console = Console(width=110, stderr=options.json)
    console.print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start, "
                  f"{options.rounds} rounds")  # fmt: skip
    values = measured(options)
    aim = MANY_AIM if options.inflight >= MANY else IDEAL_AIM
    rows = [
        ["pages a second", str(values.rate), ""],
        ["share of the ideal", str(values.share), aim.verdict(values.share.median)],
        ["times as fast as one at a time", str(values.gain), ""],
        ["pages a second with no latency", str(values.drawing), "drawing, encoding, sending"],
        ["most memory", f"{values.memory / 2**20:,.0f} MiB", "child included"],
    ]
    title = f"{options.pages} pages, {options.inflight} at once, {options.latency:g} s each"
    console.print(table(title, ["", "median (lowest - highest)", ""], rows))
    if options.json:
        json.dump(asdict(values), sys.stdout, indent=2)


def _options() -> argparse.Namespace:
    parser = command_line.parser("bench.ocr", __doc__, "--latency 0.5 --rounds 1")
    parser.add_argument("--latency", type=float, default=2, help="seconds an answer takes (2)")
    parser.add_argument("--inflight", type=int, default=64, help="pages at once (64)")
    parser.add_argument("--pages", type=int, default=72, help="pages of the document (72)")
    parser.add_argument("--renderers", type=int, default=1, help="processes that draw the pages (1)")
    parser.add_argument(
        "--scans", action="store_true", help="pages that are one JPEG each, as a scanner makes"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds; medians are shown (3)")
    parser.add_argument(
        "--single", type=int, default=4, help="pages that are read one at a time, a round (4)"
    )
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    return parser.parse_args()


def measured(options: argparse.Namespace) -> Measured:
    """Round by round: many pages at once, a few one at a time, and many without latency."""
    ideal = ideal_rate(options.pages, options.inflight, options.latency)
    many, single, drawing = [], [], []
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        pdf = (scans if options.scans else pages_of_sample)(Path(folder) / "pages.pdf", options.pages)
        with stub(options.latency) as slow, stub(0) as fast:
            for _ in range(options.rounds):
                many.append(run(pdf, options.pages, options.inflight, slow, options.renderers))
                single.append(run(pdf, options.single, 1, slow).rate)
                drawing.append(run(pdf, options.pages, options.inflight, fast, options.renderers).rate)
    rates = [each.rate for each in many]
    return Measured(
        spread(rates),
        spread([rate / ideal for rate in rates]),
        spread([rate / one for rate, one in zip(rates, single, strict=True)]),
        spread(drawing),
        max(each.memory for each in many),
    )


def ideal_rate(pages: int, inflight: int, latency: float) -> float:
    """Pages per second if nothing but the latency took time; the last wave may not be full."""
    waves = -(-pages // inflight)
    return pages / (waves * latency)


def pages_of_sample(path: Path, count: int) -> Path:
    """A PDF with this number of pages."""
    pages, writer = PdfReader(SAMPLE).pages, PdfWriter()
    for number in range(count):
        writer.add_page(pages[number % len(pages)])
    writer.write(path)
    return path


def scans(path: Path, count: int) -> Path:
    """The sample's pages as a scanner makes them: each is one JPEG of 150 dpi."""
    with pdfium.PdfDocument(SAMPLE) as sample:
        pictures = [page.render(scale=150 / 72, grayscale=True).to_pil() for page in sample]
    pages = [pictures[number % len(pictures)] for number in range(count)]
    pages[0].save(path, "PDF", save_all=True, append_images=pages[1:], resolution=150)
    return path


@contextmanager
def stub(latency: float) -> Iterator[str]:
    """The base URL of an endpoint that answers after `seconds`."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.vision_stub", str(latency)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        process.stdin.close()


def run(pdf: Path, pages: int, inflight: int, base_url: str, renderers: int = 1) -> Run:
    """Read the first pages of a document. Raises `RuntimeError` when one could not be read."""
    pacing = Pacing(inflight, max(2 * inflight, 2))
    remote = RemoteOptions(Endpoint(base_url, "stub"), pacing, renderers=renderers)
    options = OcrOptions("remote", remote=remote)
    began = time.perf_counter()
    with most_memory() as seen:
        found = ocr(pdf, range(1, pages + 1), options, NEVER)
    if found.failed:
        raise RuntimeError(f"{len(found.failed)} of {pages} pages were not read")
    return Run(pages / (time.perf_counter() - began), max(seen))


@contextmanager
def most_memory() -> Iterator[list[int]]:
    """Samples the resident bytes of this process and the child that renders.

    The endpoints are children too and do not count.
    """
    me, seen, over = psutil.Process(), [0], threading.Event()
    stubs = set(me.children())

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            drawing = [child for child in me.children() if child not in stubs]
            seen.append(sum(resident(process) for process in (me, *drawing)))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


if __name__ == "__main__":
    main()
