"""`python -m bench.corpus FOLDER`: the outcome of every file of a corpus beside the known facts about it.

FOLDER holds PDFs and a `facts.json` (a list of objects: `file`, `pages`, `text_layer`, `refs`, `special`);
without it SLUICE_CORPUS names the folder. Prints a table in Markdown; with `--write` it is also written to
docs/corpus.md. Pages without text are read by the local OCR engine unless `--no-ocr` is given.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import command_line
from bench.reference_baseline import counted_by_pattern
from pipeline.steps.extract.extract import (
    Extracted,
    ExtractOptions,
    PageText,
    extract,
    letters,
    with_page_marks,
)
from pipeline.steps.extract.references import References, find_references
from pipeline.steps.ocr.ocr import OcrOptions, ocr, page_of
from queuemgr.base.errors import StepFailed
from queuemgr.flows.abort_signal import NEVER

PAGE = Path(__file__).resolve().parents[1] / "docs" / "corpus.md"

TEXT, BARE = "text", "no text layer"
"""Two outcomes of a file after extraction; the others are error kinds."""

Fact = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a file: `ending` after extraction, `final` after OCR; seconds of wall time."""

    ending: str
    final: str
    seconds: float
    pages: int | None = None
    sources: str = ""
    references: References | None = None
    by_pattern: int | None = None
    problem: str = ""


def expected(fact: Fact) -> tuple[str, ...]:
    """The outcomes of extraction that are right for a file with these facts."""
    if str(fact["special"]).startswith("encrypted"):
        return ("encrypted",)
    if fact["file"].startswith("made__"):
        return (BARE, "resource_limit")
    if fact["pages"] is None:
        return ("damaged",)
    scant = fact["text_layer"] == "none" or not fact["pypdf"]["chars"] or fact["pypdf"]["chars"] < 200
    return (TEXT, BARE) if scant and fact["text_layer"] == "yes" else (TEXT,) if not scant else (BARE,)


def outcome(pdf: Path, options: ExtractOptions, with_ocr: bool = False) -> Outcome:
    """Read one file as the pipeline does, and count its references in both ways."""
    start = time.monotonic()
    try:
        read = extract(pdf, options, NEVER)
    except StepFailed as failed:
        return Outcome(failed.kind, failed.kind, time.monotonic() - start, problem=failed.message)
    ending = TEXT if len(read.without_text) < read.page_count else BARE
    pages, problem = recognised(pdf, read) if with_ocr else (read.pages, read.problem)
    text = with_page_marks(pages)
    return Outcome(
        ending,
        "done" if any(letters(page.text) for page in pages) else "no_text",
        time.monotonic() - start,
        read.page_count,
        counted(page.source for page in pages),
        find_references(text),
        counted_by_pattern(text),
        problem,
    )


def recognised(pdf: Path, read: Extracted) -> tuple[Sequence[PageText], str]:
    """The pages, with those without text read by OCR, and what is still missing."""
    if not read.without_text:
        return read.pages, read.problem
    pages = {page.number: page for page in read.pages}
    try:
        found = ocr(pdf, read.without_text, OcrOptions(), NEVER)
    except StepFailed as failed:
        return read.pages, f"{read.problem} {failed.message}".strip()
    pages |= {each.page: page_of(each, pages[each.page]) for each in found.outcomes}
    in_order = tuple(pages[n] for n in sorted(pages))
    return in_order, replace(read, pages=in_order).problem


def counted(sources: Iterable[str]) -> str:
    return ", ".join(f"{count} {source}" for source, count in Counter(sources).most_common())


COLUMNS = (
    "file", "size KB", "known facts", "pages known", "pages", "read by", "extraction", "as expected", "final",
    "references known", "baseline", "Sluicegate", "split", "with DOI or arXiv id", "seconds",
)  # fmt: skip


def row(fact: Fact, got: Outcome) -> list[str]:
    refs = got.references
    entries = refs.entries if refs else ()
    return [
        f"`{fact['file']}`",
        f"{fact['size'] / 1000:.0f}",
        str(fact["special"]),
        shown(fact["pages"]),
        shown(got.pages),
        got.sources,
        got.ending,
        "yes" if got.ending in expected(fact) and got.pages in (fact["pages"], None) else "**no**",
        got.final,
        shown(fact["refs"]),
        shown(got.by_pattern) if fact["refs"] else "",
        shown(refs.count if refs else None),
        str(len(entries) or ""),
        str(sum(bool(entry.doi or entry.arxiv_id) for entry in entries) or ""),
        f"{got.seconds:.1f}",
    ]


def shown(number: int | None) -> str:
    return "" if number is None else str(number)


def in_markdown(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(COLUMNS) + " |"
    yield "|" + " --- |" * len(COLUMNS)
    for cells in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def summary(done: Sequence[tuple[Fact, Outcome]]) -> Iterator[str]:
    """How many files had a right outcome, and how both counts of references compare to the facts."""
    right = sum(got.ending in expected(fact) for fact, got in done)
    yield f"{right} of {len(done)} files end as expected.\n"
    known = [(fact["refs"], got) for fact, got in done if fact["refs"]]
    ours = [abs((got.references.count or 0) - refs) for refs, got in known if got.references]
    pattern = [abs((got.by_pattern or 0) - refs) for refs, got in known]
    if known:
        yield (
            f"References, {len(known)} papers: the baseline has {pattern.count(0)} exact and is off by "
            f"{sum(pattern) / len(known):.1f} on average; Sluicegate has {ours.count(0)} exact and is off by "
            f"{sum(ours) / len(known):.1f}.\n"
        )


def main() -> None:
    options = _options()
    folder = Path(options.folder or os.environ.get("SLUICE_CORPUS", ""))
    if not (folder / "facts.json").is_file():
        sys.exit(f"{folder} has no facts.json. Name a folder of PDFs that has one, or set SLUICE_CORPUS.")
    done = []
    for fact in json.loads((folder / "facts.json").read_text()):
        done.append((fact, outcome(folder / fact["file"], ExtractOptions(), not options.no_ocr)))
        print(" ".join(row(*done[-1])), file=sys.stderr)
    text = "\n".join([*summary(done), *in_markdown(row(*one) for one in done)])
    print(text)
    if options.write:
        head, _, _ = PAGE.read_text().partition(MARK)
        PAGE.write_text(f"{head}{MARK}\n\n{text}\n")


MARK = "<!-- what follows is written by `python -m bench.corpus --write` -->"


def _options() -> argparse.Namespace:
    parser = command_line.parser("bench.corpus", __doc__, "~/corpus --write")
    parser.add_argument("folder", nargs="?", help="PDFs and facts.json (else SLUICE_CORPUS)")
    parser.add_argument("--no-ocr", action="store_true", help="leave pages without text unread")
    parser.add_argument("--write", action="store_true", help="write docs/corpus.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
