"""`python -m bench.extract [FOLDER]`: pages per second of the processor, by pypdf alone and by the pipeline.

Every PDF of FOLDER (default: the samples of this repository) is read by pypdf in one process of its own
without limits, and by `pipeline.steps.extract.extract`, alternately: short papers, and long ones. All
processes count, with their starts. Memory is the highest resident set of a process that read.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from bench import command_line
from bench.measures import Aim, ratios, spread, table
from pipeline.steps.extract.extract import ExtractOptions, extract
from pipeline.steps.pdf import warm_start
from queuemgr.base.errors import StepFailed
from queuemgr.flows.abort_signal import NEVER

SAMPLES = Path(__file__).resolve().parents[1] / "samples"

ALONE = """
import sys, pypdf, logging
logging.disable(logging.CRITICAL)
pages = 0
for path in sys.argv[1:]:
    try:
        for page in pypdf.PdfReader(path).pages:
            page.extract_text()
            pages += 1
    except Exception:  # pypdf raises anything over a damaged file; its pages count as unread
        pass
print(pages)
"""

COUNT = ALONE.replace("page.extract_text()", "")

OURS, BARE = "ours", "pypdf alone"

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
    counted = [(pdf, by_pypdf([pdf], COUNT)) for pdf in pdfs]
    return {
        "short papers": [pdf for pdf, pages in counted if 0 < pages < LONG_PAGES],
        "long papers": [pdf for pdf, pages in counted if pages >= LONG_PAGES],
    }


def rows(kind: str, pdfs: Sequence[Path], rounds: int) -> list[list[str]]:
    """Both ways of reading these papers, in turn, so that a slow machine slows both."""
    readers: dict[str, Callable[[Sequence[Path]], int]] = {BARE: by_pypdf, OURS: by_ours}
    rates: dict[str, list[float]] = {name: [] for name in readers}
    memory = dict.fromkeys(readers, 0)
    for _ in range(rounds):
        for name, read in readers.items():
            began = cpu_seconds()
            pages = read(pdfs)
            rates[name].append(pages / (cpu_seconds() - began))
            memory[name] = highest(resource.RUSAGE_CHILDREN)
    verdict = AIMS[kind].verdict(ratios(rates[OURS], rates[BARE]).median)
    return [
        [name, str(spread(found)), str(ratios(found, rates[BARE])), verdict if name == OURS else "",
         f"{memory[name]} MB"]
        for name, found in rates.items()
    ]  # fmt: skip


def cpu_seconds() -> float:
    """Of this process and of its children that have ended, with theirs."""
    return sum(os.times()[:4])


def by_pypdf(pdfs: Sequence[Path], program: str = "") -> int:
    """Pages read by pypdf alone, in one process for all files and without a sandbox."""
    command = [sys.executable, "-c", program or ALONE, *map(str, pdfs)]
    return int(subprocess.run(command, check=True, capture_output=True).stdout)


def by_ours(pdfs: Sequence[Path]) -> int:
    """Pages read as the pipeline does: in sandboxed processes, judged, by a second engine where needed."""
    pages = 0
    for pdf in pdfs:
        try:
            pages += len(extract(pdf, ExtractOptions(), NEVER).pages)
        except StepFailed:
            continue
    warm_start.end()  # so that what it took counts
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
