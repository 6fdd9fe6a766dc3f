"""`python -m bench.extract [FOLDER]`: pages per second and memory of pypdf alone and of the pipeline.

Every PDF of FOLDER (default: the samples of this repository) is read by pypdf in its own process without
limits, and by `pipeline.steps.extract.extract`, alternately. Memory is the highest resident set of the
processes that read, and of the process that started them. The start of an interpreter with pypdf is timed
too: a fresh child costs that much per document.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from bench import command_line
from bench.measures import ratios, spread, table
from pipeline.steps.extract.extract import ExtractOptions, extract
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

OURS = "ours"


def main() -> None:
    options = _options()
    pdfs = sorted(options.folder.glob("*.pdf"))
    if not pdfs:
        sys.exit(f"{options.folder} has no PDF. Name a folder that has some.")
    readers: dict[str, Callable[[Sequence[Path]], int]] = {"pypdf alone": by_pypdf, OURS: by_ours}
    rates: dict[str, list[float]] = {name: [] for name in readers}
    memory = {name: 0 for name in readers}
    for _ in range(options.rounds):
        for name, read in readers.items():  # in turn, so that a slow machine slows both
            start = time.perf_counter()
            pages = read(pdfs)
            rates[name].append(pages / (time.perf_counter() - start))
            memory[name] = highest(resource.RUSAGE_CHILDREN)
    rows = [
        [name, str(spread(found)), str(ratios(found, rates["pypdf alone"])), f"{memory[name]} MB"]
        for name, found in rates.items()
    ]
    console = Console(width=110)
    title = f"{len(pdfs)} PDFs, {options.rounds} rounds, load {os.getloadavg()[0]:.1f}"
    console.print(table(title, ["", "pages/s (lowest - highest)", "ratio", "children so far"], rows))
    start = start_seconds()
    console.print(
        f"A fresh child starts in {start:.2f} s, {start * len(pdfs):.1f} s for all of these documents. "
        f"The asking process held {highest(resource.RUSAGE_SELF)} MB at most."
    )


def by_pypdf(pdfs: Sequence[Path]) -> int:
    """Pages read by pypdf alone, in one process for all files and without a sandbox."""
    command = [sys.executable, "-c", ALONE, *map(str, pdfs)]
    return int(subprocess.run(command, check=True, capture_output=True).stdout)


def by_ours(pdfs: Sequence[Path]) -> int:
    """Pages read as the pipeline does: in sandboxed processes, judged, by a second engine where needed."""
    pages = 0
    for pdf in pdfs:
        try:
            pages += len(extract(pdf, ExtractOptions(), NEVER).pages)
        except StepFailed:
            continue
    return pages


def start_seconds() -> float:
    """The fastest of five starts of an interpreter with pypdf."""
    taken = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-B", "-c", "import pypdf"], check=True)
        taken.append(time.perf_counter() - start)
    return min(taken)


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
