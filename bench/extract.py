"""`python -m bench.extract [FOLDER]`: pages per second of the processor, by pypdf alone and by the pipeline.

Every PDF of FOLDER (default: the samples of this repository) is read by pypdf in one process of its own
without limits, and by `pipeline.steps.extract.extract`, alternately: short papers, and long ones. Once with
all starts: of pypdf's interpreter, and of our template. And once without both, as in a worker, whose template
reads 200 documents. Memory is the highest resident set of a process that read.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
from rich.console import Console

from bench import command_line
from bench.measures import Aim, ratios, spread, table
from pipeline.steps.extract.extract import ExtractOptions, extract
from pipeline.steps.pdf import warm_start
from queuemgr.base.errors import StepFailed
from queuemgr.flows.abort_signal import NEVER

SAMPLES = Path(__file__).resolve().parents[1] / "samples"

ALONE = """
import sys, time, pypdf, logging
began = time.process_time()
logging.disable(logging.CRITICAL)
pages = 0
for path in sys.argv[1:]:
    try:
        for page in pypdf.PdfReader(path).pages:
            page.extract_text()
            pages += 1
    except Exception:  # pypdf raises anything over a damaged file; its pages count as unread
        pass
print(pages, time.process_time() - began)
"""

COUNT = ALONE.replace("page.extract_text()", "")

OURS, BARE = "ours, with starts", "pypdf alone, with its start"
OURS_RUNNING, BARE_RUNNING = "ours, in a worker", "pypdf alone, without its start"

LONG_PAGES = 11
"""Pages from which a paper is long."""

AIMS = {"short papers": Aim(3, at_least=True), "long papers": Aim(8, at_least=True)}
"""Pages of ours for each page of bare pypdf, in the same time of the processor."""


def main() -> None:
    options = _options()
    pdfs = sorted(options.folder.glob("*.pdf"))
    if not pdfs:
        sys.exit(f"{options.folder} has no PDF. Name a folder that has some.")
    console = Console(width=110)
    console.print(f"{len(pdfs)} PDFs, {options.rounds} rounds, load {os.getloadavg()[0]:.1f} at the start")
    for kind, papers in by_length(pdfs).items():
        if papers:
            console.print(table(f"{kind} ({len(papers)})", HEAD, rows(kind, papers, options.rounds)))
    console.print(f"The asking process held {highest(resource.RUSAGE_SELF)} MB at most.")


HEAD = ["", "pages a CPU second (lowest - highest)", "ratio", "", "children so far"]


def by_length(pdfs: Sequence[Path]) -> dict[str, list[Path]]:
    """The PDFs that pypdf can count the pages of, short ones and long ones."""
    counted = [(pdf, by_pypdf([pdf], COUNT)[0]) for pdf in pdfs]
    return {
        "short papers": [pdf for pdf, pages in counted if 0 < pages < LONG_PAGES],
        "long papers": [pdf for pdf, pages in counted if pages >= LONG_PAGES],
    }


def rows(kind: str, pdfs: Sequence[Path], rounds: int) -> list[list[str]]:
    """Both ways of reading these papers, in turn, so that a slow machine slows both."""
    rates: dict[str, list[float]] = {name: [] for name in (BARE, OURS, BARE_RUNNING, OURS_RUNNING)}
    memory = dict.fromkeys(rates, 0)
    for _ in range(rounds):
        began = cpu_seconds()
        pages, running = by_pypdf(pdfs)
        rates[BARE].append(pages / (cpu_seconds() - began))
        rates[BARE_RUNNING].append(pages / running)
        memory[BARE] = memory[BARE_RUNNING] = highest(resource.RUSAGE_CHILDREN)
        began = cpu_seconds()
        pages = by_ours(pdfs)
        rates[OURS].append(pages / (cpu_seconds() - began))
        began = cpu_seconds()  # the template has been started
        pages = by_ours(pdfs)
        rates[OURS_RUNNING].append(pages / (cpu_seconds() - began))
        memory[OURS] = memory[OURS_RUNNING] = highest(resource.RUSAGE_CHILDREN)
        warm_start.end()
    beside = {BARE: BARE, OURS: BARE, BARE_RUNNING: BARE_RUNNING, OURS_RUNNING: BARE_RUNNING}
    compared = {name: ratios(found, rates[beside[name]]) for name, found in rates.items()}
    return [
        [name, str(spread(found)), str(compared[name]),
         AIMS[kind].verdict(compared[name].median) if name in (OURS, OURS_RUNNING) else "",
         f"{memory[name]} MB"]
        for name, found in rates.items()
    ]  # fmt: skip


def cpu_seconds() -> float:
    """Of this process and of its children, with theirs that have ended."""
    running = [child.cpu_times() for child in psutil.Process().children()]
    return sum(os.times()[:4]) + sum(sum(times[:4]) for times in running)


def by_pypdf(pdfs: Sequence[Path], program: str = "") -> tuple[int, float]:
    """Pages read by pypdf alone, in one process for all files and without a sandbox, and the seconds of the
    processor it took once it had started."""
    command = [sys.executable, "-c", program or ALONE, *map(str, pdfs)]
    pages, seconds = subprocess.run(command, check=True, capture_output=True).stdout.split()
    return int(pages), float(seconds)


def by_ours(pdfs: Sequence[Path]) -> int:
    """Pages read as the pipeline does: in sandboxed processes, judged, by a second engine where needed."""
    pages = 0
    for pdf in pdfs:
        try:
            pages += len(extract(pdf, ExtractOptions(), NEVER).pages)
        except StepFailed:
            continue
    return pages


def highest(who: int) -> int:
    """The highest resident set so far in MB; Linux counts in KB, macOS in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(who).ru_maxrss * unit // 1_000_000


def _options() -> argparse.Namespace:
    parser = command_line.parser("bench.extract", __doc__, "~/papers")
    parser.add_argument("folder", nargs="?", type=Path, default=SAMPLES, help="a folder of PDFs")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; medians are shown (default 3)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
