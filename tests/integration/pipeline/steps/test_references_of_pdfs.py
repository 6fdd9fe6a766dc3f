"""References out of PDFs of every kind the field has, ours and, where there are any, real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.steps.extract.extract import ExtractOptions, extract, with_page_marks
from pipeline.steps.extract.references import References, find_references
from queuemgr.flows.abort_signal import NEVER
from tests.corpus import CORPUS, FACTS, needs_corpus
from tests.pdf_builder import document, in_columns, text_content, written

SAMPLES = Path(__file__).resolve().parents[4] / "samples"
PROSE = ["We follow earlier work (Smith, 2001) and [3], see also [7] and the",
         "twelve gates of 1999, which all leak a little."] * 6  # fmt: skip
TITLES = ("gates", "seals", "locks", "weirs", "mills", "ponds", "fords")

PRINTED = {"jose-papers__10.21105.jose.00035.pdf": 22}
"""Where the known count is not what the PDF prints: the publisher's metadata list 24."""


def references_of(pdf: Path) -> References:
    return find_references(with_page_marks(extract(pdf, ExtractOptions(), NEVER).pages))


def made(folder: Path, *pages: bytes) -> References:
    return references_of(written(folder, document(pages)))


def bracketed(count: int) -> list[str]:
    return [f"[{n}] A. Author. On {TITLES[n % 7]}. J. Water, 20{n:02d}." for n in range(1, count + 1)]


def author_year(count: int) -> list[str]:
    names = ("Abel", "Baker", "Cole", "Dunn", "Evans", "Frost", "Grant", "Hill", "Innes")
    return [
        line
        for n, name in enumerate(names[:count])
        for line in (f"{name}, A. B. (20{n:02d}). On {TITLES[n % 7]} and the water behind",
                     f"them. Journal of Water, 3(2), 48{n}. https://doi.org/10.1000/{n}")
    ]  # fmt: skip


def test_a_bracketed_list_without_a_heading(tmp_path: Path) -> None:
    found = made(tmp_path, text_content(*PROSE, *bracketed(20)))
    assert (found.count, found.style, len(found.entries)) == (20, "bracketed", 20)


def test_a_numbered_list_in_two_columns(tmp_path: Path) -> None:
    entries = [f"{n}. Author A, Bee B: On {TITLES[n % 7]}. J Water 2001, 5:{n}-9." for n in range(1, 31)]
    found = made(tmp_path, in_columns([*PROSE, "References", *entries[:14]], entries[14:]))
    assert (found.count, found.style) == (30, "numbered")
    assert found.entries[13].text.endswith("2001, 5:14-9.")


def test_a_list_whose_right_column_is_drawn_first(tmp_path: Path) -> None:
    """Each entry was made of two halves: the end of the left column, and the beginning of the right one."""
    entries = author_year(9)
    left, right = ([*PROSE, "References", *entries[:9]], entries[9:])
    first, second = in_columns(left, right).split(b" ET ")
    found = made(tmp_path, second + b" " + first + b" ET")
    assert (found.count, found.style) == (9, "author-year")
    assert [entry.doi for entry in found.entries] == [f"10.1000/{n}" for n in range(9)]


def test_an_author_year_list_over_two_pages(tmp_path: Path) -> None:
    entries = author_year(9)
    found = made(tmp_path, text_content(*PROSE, "References", *entries[:9]), text_content(*entries[9:]))
    assert (found.count, found.style) == (9, "author-year")
    assert [entry.doi for entry in found.entries] == [f"10.1000/{n}" for n in range(9)]


@pytest.mark.parametrize("heading", ["Appendix A. Proofs", "Supplementary material"])
def test_an_appendix_after_the_list(tmp_path: Path, heading: str) -> None:
    found = made(
        tmp_path, text_content(*PROSE, "References", *bracketed(12)), text_content(heading, *bracketed(20))
    )
    assert (found.count, len(found.entries)) == (12, 12)


@pytest.mark.parametrize(
    ("heading", "style"),
    [("Literaturverzeichnis", "bracketed"), ("Références", "bracketed"), ("Bibliografía", "bracketed")],
)
def test_a_heading_in_another_language(tmp_path: Path, heading: str, style: str) -> None:
    found = made(tmp_path, text_content(*PROSE, heading, *bracketed(8)))
    assert (found.count, found.style) == (8, style)


@pytest.mark.parametrize(
    ("name", "count", "style"),
    [
        ("author-year.pdf", 17, "author-year"),
        ("two-column.pdf", 24, "bracketed"),
        ("cjk.pdf", 8, "bracketed"),
        ("long.pdf", 41, "bracketed"),
    ],
)
def test_our_samples_give_every_entry(name: str, count: int, style: str) -> None:
    found = references_of(SAMPLES / name)
    assert (found.count, found.style, len(found.entries)) == (count, style, count)
    assert all(20 < len(entry.text) < 500 for entry in found.entries)


@needs_corpus
@pytest.mark.parametrize(
    "fact", [fact for fact in FACTS if fact["refs"] and fact["size"] < 400_000], ids=lambda fact: fact["file"]
)
def test_real_papers_give_every_reference_they_print(fact: dict[str, Any]) -> None:
    found = references_of(CORPUS / fact["file"])
    assert found.count == PRINTED.get(fact["file"], fact["refs"])
    assert len(found.entries) == found.count
    assert all(15 < len(entry.text) < 700 for entry in found.entries)
