"""PDFium reads what pypdf cannot, the reason is recorded, and wrong letters are never used."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.steps.extract import extract as step
from pipeline.steps.extract.extract import Extracted, ExtractOptions, extract
from queuemgr.flows.abort_signal import NEVER
from tests.pdf_builder import (
    document,
    font_without_map,
    looping_page_tree,
    nested_array,
    text_content,
    written,
)

DEFAULTS = ExtractOptions()
SENTENCE = "The quick brown fox jumps over the lazy dog, and so it continues for a while."
HIRAGANA = range(842, 842 + 80)
"""Glyph numbers of Adobe's Japanese collection, from HIRAGANA SMALL A on."""

CHINESE_AS_LATIN = "Ä¿Â¼ £¨Ò»£© ¡¡ÖÐ¹ú ÈËÃñ ¹²ºÍ¹ú"
"""GBK bytes read as Latin-1."""


def read(folder: Path, content: bytes, options: ExtractOptions = DEFAULTS) -> Extracted:
    return extract(written(folder, content), options, NEVER)


def test_letters_pypdf_has_no_table_for_are_read_by_pdfium(tmp_path: Path) -> None:
    found = read(tmp_path, font_without_map("Japan1", HIRAGANA))
    [page] = found.pages
    assert page.text.startswith("ぁあぃい")
    assert (page.source, page.reason) == ("pdfium", "pypdf: its fonts need character tables that pypdf lacks")
    assert (found.problem, found.without_text) == ("", ())


def test_letters_that_are_nowhere_in_the_file_are_left_to_ocr(tmp_path: Path) -> None:
    """PDFium also takes glyph numbers for letters: `dgjmps` instead of the page's text."""
    found = read(tmp_path, font_without_map("Identity", range(100, 340, 3)))
    [page] = found.pages
    assert (page.text, page.source) == ("", "failed")
    assert found.without_text == (1,)
    assert found.problem == ("Page 1 could not be read (pypdf: its fonts have no character map).")


def test_a_file_pypdf_cannot_open_is_read_by_pdfium(tmp_path: Path) -> None:
    found = read(tmp_path, looping_page_tree(SENTENCE))
    [page] = found.pages
    assert (page.text, page.source) == (SENTENCE, "pdfium")
    assert page.reason == "pypdf: it cannot open the file (PdfReadError)"


def test_a_page_pypdf_cannot_read_is_read_by_pdfium(tmp_path: Path) -> None:
    found = read(tmp_path, nested_array(before=text_content(SENTENCE)))
    [page] = found.pages
    assert (page.text, page.source) == (SENTENCE, "pdfium")
    assert page.reason == "pypdf: it cannot read the page (RecursionError)"


def test_a_page_pypdf_is_too_slow_for_is_read_by_pdfium(tmp_path: Path) -> None:
    slow = text_content("Slow.", SENTENCE) + b" 0 g" * 900_000
    content = document([text_content(SENTENCE), slow])
    found = read(tmp_path, content, replace(DEFAULTS, page_seconds=3))
    assert [page.source for page in found.pages] == ["pypdf", "pdfium"]
    assert found.pages[1].text == f"Slow.\n{SENTENCE}"
    assert found.pages[1].reason == "pypdf: it exceeded the time limit of a page"
    assert found.problem == ""


def test_illegible_text_of_either_engine_is_no_text(tmp_path: Path) -> None:
    junk = text_content(*[CHINESE_AS_LATIN] * 12)
    found = read(tmp_path, document([text_content(SENTENCE), junk]))
    assert [page.source for page in found.pages] == ["pypdf", "failed"]
    assert found.pages[1].reason == (
        "pypdf: few of its words look like words; PDFium: few of its words look like words"
    )
    assert found.without_text == (2,)


def test_pages_both_engines_find_empty_are_pypdfs(tmp_path: Path) -> None:
    found = read(tmp_path, document([text_content(SENTENCE), b"", text_content("12")]))
    assert [(page.source, page.reason) for page in found.pages] == [("pypdf", "")] * 3
    assert found.without_text == (2, 3)


def test_only_doubtful_pages_are_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, object]] = []
    reading_by = step.reading_by

    def noted(child: Path, *args: object) -> object:
        calls.append((child.name, args[4] if len(args) > 4 else None))
        return reading_by(child, *args)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(step, "reading_by", noted)
    first, second = (
        text_content(*(f"{word * n} {SENTENCE}" for n in range(1, 9))) for word in ("one", "two")
    )
    read(tmp_path, document([first, second]))
    assert calls == [("pypdf_child.py", None)]
    read(tmp_path, document([first, b"", second]))
    assert calls[1:] == [("pypdf_child.py", None), ("pdfium_child.py", [2])]


def test_pdfium_is_never_loaded_in_the_worker(tmp_path: Path) -> None:
    """Some files crash it, which would take the worker down."""
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from pipeline.steps.extract.extract import ExtractOptions, extract\n"
        "from queuemgr.flows.abort_signal import NEVER\n"
        "extract(Path(sys.argv[1]), ExtractOptions(), NEVER)\n"
        "assert not {'pypdf', 'pypdfium2'} & set(sys.modules)\n"
    )
    pdf = written(tmp_path, looping_page_tree(SENTENCE))
    assert subprocess.run([sys.executable, "-c", program, str(pdf)]).returncode == 0
