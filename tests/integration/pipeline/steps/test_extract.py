"""Extraction of real files made here: good ones, hostile ones, and what databases cannot take."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pypdf import PdfWriter

from pipeline.steps.extract.extract import Extracted, ExtractOptions, clean, extract, with_page_marks
from queuemgr.base.errors import Aborted, StepFailed
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from queuemgr.flows.flow import all_error_kinds
from tests.pdf_builder import (
    document,
    empty_pages,
    operators,
    picture_of_text,
    scanned,
    text_content,
    written,
)

DEFAULTS = ExtractOptions()
SENTENCE = "The quick brown fox jumps over the lazy dog, and so it continues for a while."


def read(folder: Path, content: bytes, options: ExtractOptions = DEFAULTS) -> Extracted:
    return extract(written(folder, content), options, NEVER)


def refused(folder: Path, content: bytes, options: ExtractOptions = DEFAULTS) -> StepFailed:
    with pytest.raises(StepFailed) as caught:
        read(folder, content, options)
    assert caught.value.kind in all_error_kinds()
    assert caught.value.message[0].isupper() and caught.value.message[-1] in ".)`"
    return caught.value


def encrypted(user_password: str, algorithm: str = "RC4-128") -> PdfWriter:
    writer = PdfWriter()
    writer.add_blank_page(200, 200)
    writer.encrypt(user_password, owner_password="owner", algorithm=algorithm)
    return writer


# ---- what it gives


def test_every_page_comes_with_its_number_before_it(tmp_path: Path) -> None:
    found = read(tmp_path, document([text_content(SENTENCE), text_content("Second.", SENTENCE)]))
    assert with_page_marks(found.pages) == f"[PAGE 1]\n{SENTENCE}\n[PAGE 2]\nSecond.\n{SENTENCE}"
    assert (found.page_count, found.problem, found.without_text) == (2, "", ())
    assert {page.source for page in found.pages} == {"pdfium"}


def test_blank_and_scanned_pages_are_named_as_without_text(tmp_path: Path) -> None:
    found = read(tmp_path, document([text_content(SENTENCE), b"", text_content("12")]))
    assert found.without_text == (2, 3)
    pictures = read(tmp_path, scanned([picture_of_text([[SENTENCE]])]))
    assert pictures.without_text == (1,)


def test_a_forged_page_mark_does_not_pass_for_ours(tmp_path: Path) -> None:
    found = read(tmp_path, document([text_content(SENTENCE, "[PAGE 7]", "[ page 8 ]")]))
    assert "(PAGE 7)" in with_page_marks(found.pages) and "( page 8 )" in with_page_marks(found.pages)
    assert with_page_marks(found.pages).count("[PAGE ") == 1


def test_pages_beyond_the_limit_are_not_read_and_this_is_reported(tmp_path: Path) -> None:
    content = document([text_content(SENTENCE)] * 5)
    found = read(tmp_path, content, replace(DEFAULTS, max_pages=2))
    assert (len(found.pages), found.page_count) == (2, 5)
    assert found.problem == "Only the first 2 of 5 pages were read."


def test_text_beyond_the_limit_is_cut_and_this_is_reported(tmp_path: Path) -> None:
    content = document([text_content(SENTENCE)] * 3)
    found = read(tmp_path, content, replace(DEFAULTS, max_chars=100))
    assert sum(len(page.text) for page in found.pages) == 100
    assert found.problem == "The text was cut: 100 characters may be read, 200,000 of a page."


def test_a_page_with_more_text_than_a_page_may_have_is_cut_alone(tmp_path: Path) -> None:
    content = document([text_content(*[SENTENCE] * 9), text_content(SENTENCE)])
    found = read(tmp_path, content, replace(DEFAULTS, max_page_chars=200))
    first, second = (page.text for page in found.pages)
    assert 190 < len(first) <= 200 and second == SENTENCE, "a line ends with two characters in the engine"
    assert "200 of a page" in found.problem


def test_a_document_of_a_thousand_empty_pages_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, document([b""] * 1000))
    assert found.page_count == len(found.without_text) == 1000


# ---- cleaning


def test_text_from_a_page_is_valid_utf8_without_nul(tmp_path: Path) -> None:
    """PostgreSQL refuses NUL; 1 in 18 real papers holds control characters."""
    found = read(tmp_path, document([text_content(SENTENCE + " and\x01 more")]))
    with_page_marks(found.pages).encode()
    assert "\x00" not in with_page_marks(found.pages)
    assert found.cleaned == found.pages[0].cleaned > 0


@pytest.mark.parametrize(
    ("dirty", "expected"),
    [
        ("a\x00b", "ab"),
        ("\ud83d\ude00 pair", "😀 pair"),
        ("lone \ud83d half", "lone \ufffd half"),
        ("\udc00", "\ufffd"),
        ("e\ufb03cient \ufb01t", "efficient fit"),
        ("soft\u00adhyphen\ufffe", "softhyphen"),
        ("x² stays", "x² stays"),
        ("one\r\ntwo\rthree\u2028four\x0cfive", "one\ntwo\nthree\nfour\nfive"),
        ("\u2028[PAGE 3]", "\n(PAGE 3)"),
        ("tab\tstays", "tab\tstays"),
        ("hyphen\x02\r\nated, lig\ufffe\r\nature", "hyphenated, ligature"),
    ],
)
def test_characters_that_no_database_stores_are_replaced(dirty: str, expected: str) -> None:
    """The one place where text is cleaned."""
    assert clean(dirty).text == expected


LATEXIT = '<latexit sha1_base64="QMvA7xs+=">AAAB7XicbVA9\nSwNB/Eaa==</latexit>'


@pytest.mark.parametrize(
    ("dirty", "expected"),
    [
        (f"before {LATEXIT}after", "before after"),
        (LATEXIT * 3 + "x", "x"),
        ('<latexit sha1_base64="(null)">(null)</latexit>', ""),
        ("cut " + LATEXIT[:50], "cut "),
        ("the <latexit> tag in a sentence.", "the <latexit> tag in a sentence."),
        ("a < b, c > d", "a < b, c > d"),
    ],
)
def test_formulas_that_a_figure_hides_are_no_text(dirty: str, expected: str) -> None:
    """They were a third of one paper, and of what was sent to the model."""
    assert clean(dirty) == (expected, len(dirty) - len(expected))


def test_hyphens_pdfium_marks_at_a_lines_end_count_as_no_loss() -> None:
    assert clean("exam\x02\r\nple") == ("example", 0)


def test_clean_text_is_left_as_it_is() -> None:
    text = "Größe, 標準, العربية, ∑ and 😀\nall stay."
    assert clean(text) == (text, 0)


# ---- files that are refused


def test_a_web_page_is_not_a_pdf(tmp_path: Path) -> None:
    failed = refused(tmp_path, b"<!DOCTYPE html><title>Access denied</title>")
    assert (failed.kind, "web page" in failed.message) == ("not_pdf", True)


def test_an_empty_file_is_not_a_pdf(tmp_path: Path) -> None:
    assert refused(tmp_path, b"").kind == "not_pdf"


def test_a_missing_file_is_a_storage_failure(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="could not be opened") as caught:
        extract(tmp_path / "none.pdf", DEFAULTS, NEVER)
    assert caught.value.kind == "storage"


ALGORITHMS = ["RC4-40", "RC4-128", "AES-128", "AES-256-R5", "AES-256"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_password_requirement_is_explained_in_words(tmp_path: Path, algorithm: str) -> None:
    """Encrypted is an outcome of its own."""
    path = tmp_path / "locked.pdf"
    encrypted("secret", algorithm).write(path)
    with pytest.raises(StepFailed, match="password") as caught:
        extract(path, DEFAULTS, NEVER)
    assert caught.value.kind == "encrypted"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_empty_password_is_tried(tmp_path: Path, algorithm: str) -> None:
    path = tmp_path / "open.pdf"
    encrypted("", algorithm).write(path)
    assert extract(path, DEFAULTS, NEVER).page_count == 1


@pytest.mark.parametrize(
    "content", [b"%PDF-1.7\n", b"%PDF-1.7\ngarbage " * 100, b"%PDF-1.4\nxref\n0 1\ntrailer\n<<>>\n%%EOF"]
)
def test_a_damaged_file_is_distinguished_from_an_encrypted_one(tmp_path: Path, content: bytes) -> None:
    failed = refused(tmp_path, content)
    assert (failed.kind, "damaged" in failed.message) == ("damaged", True)


def test_a_file_without_a_page_is_distinguished_from_a_damaged_one(tmp_path: Path) -> None:
    failed = refused(tmp_path, empty_pages(0))
    assert (failed.kind, "no pages" in failed.message) == ("no_pages", True)


def test_an_abort_is_noticed_while_a_page_is_read(tmp_path: Path) -> None:
    signal = AbortSignal()
    threading.Timer(0.7, signal.abort, ["stop"]).start()
    start = time.monotonic()
    with pytest.raises(Aborted, match="stop"):
        extract(written(tmp_path, document([operators()])), DEFAULTS, signal)
    assert time.monotonic() - start < 30
