"""Extraction of real files made here: good ones, hostile ones, and what databases cannot take."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pypdf import PdfWriter

from pipeline.steps.extract import Extracted, ExtractOptions, clean, extract
from queuemgr.abort import NEVER, AbortSignal
from queuemgr.errors import Aborted, StepFailed
from queuemgr.retry import POLICIES
from tests.made_pdfs import (
    document,
    long_string,
    nested_array,
    nested_forms,
    operators,
    picture_of_text,
    scanned,
    self_drawing_form,
    text_content,
    written,
)

DEFAULTS = ExtractOptions()
HASTY = replace(DEFAULTS, page_seconds=1.5, document_seconds=30)
SENTENCE = "The quick brown fox jumps over the lazy dog, and so it goes on for a while."
CORPUS = Path(os.environ.get("SLUICE_TEST_CORPUS", "../shared/corpus"))


def read(folder: Path, content: bytes, options: ExtractOptions = DEFAULTS) -> Extracted:
    return extract(written(folder, content), options, NEVER)


def refused(folder: Path, content: bytes, options: ExtractOptions = DEFAULTS) -> StepFailed:
    with pytest.raises(StepFailed) as caught:
        read(folder, content, options)
    assert caught.value.kind in POLICIES
    assert caught.value.message[0].isupper() and caught.value.message[-1] in ".)`"
    return caught.value


def encrypted(user_password: str) -> PdfWriter:
    writer = PdfWriter()
    writer.add_blank_page(200, 200)
    writer.encrypt(user_password, owner_password="owner", algorithm="RC4-128")
    return writer


# ---- what it gives


def test_every_page_comes_with_its_number_before_it(tmp_path: Path) -> None:
    found = read(tmp_path, document([text_content(SENTENCE), text_content("Second.", SENTENCE)]))
    assert found.full_text == f"[PAGE 1]\n{SENTENCE}\n[PAGE 2]\nSecond.\n{SENTENCE}"
    assert (found.page_count, found.problem, found.without_text) == (2, "", ())
    assert {page.source for page in found.pages} == {"pypdf"}


def test_blank_and_scanned_pages_are_named_as_without_text(tmp_path: Path) -> None:
    found = read(tmp_path, document([text_content(SENTENCE), b"", text_content("12")]))
    assert found.without_text == (2, 3)
    pictures = read(tmp_path, scanned([picture_of_text([[SENTENCE]])]))
    assert pictures.without_text == (1,)


def test_a_forged_page_mark_does_not_pass_for_ours(tmp_path: Path) -> None:
    found = read(tmp_path, document([text_content(SENTENCE, "[PAGE 7]", "[ page 8 ]")]))
    assert "(PAGE 7)" in found.full_text and "( page 8 )" in found.full_text
    assert found.full_text.count("[PAGE ") == 1


def test_more_pages_than_allowed_are_left_unread_and_said_so(tmp_path: Path) -> None:
    content = document([text_content(SENTENCE)] * 5)
    found = read(tmp_path, content, replace(DEFAULTS, max_pages=2))
    assert (len(found.pages), found.page_count) == (2, 5)
    assert found.problem == "Only the first 2 of 5 pages were read."


def test_more_text_than_allowed_is_cut_and_said_so(tmp_path: Path) -> None:
    content = document([text_content(SENTENCE)] * 3)
    found = read(tmp_path, content, replace(DEFAULTS, max_chars=100))
    assert sum(len(page.text) for page in found.pages) == 100
    assert found.problem == "The text was cut at 100 characters."


def test_a_document_of_a_thousand_empty_pages_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, document([b""] * 1000))
    assert found.page_count == len(found.without_text) == 1000


# ---- cleaning


def test_text_from_a_page_bears_utf8_and_has_no_nul(tmp_path: Path) -> None:
    """P7-02: PostgreSQL refuses NUL, which 1 in 18 real papers holds."""
    found = read(tmp_path, document([text_content(SENTENCE + "\\000 and\x00 more")]))
    found.full_text.encode()
    assert "\x00" not in found.full_text
    assert found.cleaned > 0


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
    ],
)
def test_characters_no_database_takes_are_replaced(dirty: str, expected: str) -> None:
    """P7-02: the one place where text is cleaned."""
    assert clean(dirty)[0] == expected


def test_clean_text_is_left_as_it_is() -> None:
    text = "Größe, 標準, العربية, ∑ and 😀\nall stay."
    assert clean(text) == (text, 0)


# ---- files that are refused


def test_a_web_page_is_not_a_pdf(tmp_path: Path) -> None:
    failed = refused(tmp_path, b"<!DOCTYPE html><title>Access denied</title>")
    assert (failed.kind, "web page" in failed.message) == ("not_pdf", True)


def test_an_empty_file_is_not_a_pdf(tmp_path: Path) -> None:
    assert refused(tmp_path, b"").kind == "not_pdf"


def test_a_missing_file_is_a_matter_of_storage(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="could not be opened") as caught:
        extract(tmp_path / "none.pdf", DEFAULTS, NEVER)
    assert caught.value.kind == "storage"


def test_a_password_is_asked_for_in_words(tmp_path: Path) -> None:
    """P7-01: encrypted is an outcome of its own."""
    path = tmp_path / "locked.pdf"
    encrypted("secret").write(path)
    with pytest.raises(StepFailed, match="password") as caught:
        extract(path, DEFAULTS, NEVER)
    assert caught.value.kind == "encrypted"


def test_an_empty_password_is_tried(tmp_path: Path) -> None:
    path = tmp_path / "open.pdf"
    encrypted("").write(path)
    assert extract(path, DEFAULTS, NEVER).page_count == 1


@pytest.mark.parametrize(
    "content",
    [b"%PDF-1.7\n", b"%PDF-1.7\ngarbage " * 100, b"%PDF-1.4\nxref\n0 1\ntrailer\n<<>>\n%%EOF"],
)
def test_a_damaged_file_is_told_apart_from_an_encrypted_one(tmp_path: Path, content: bytes) -> None:
    failed = refused(tmp_path, content)
    assert (failed.kind, "damaged" in failed.message) == ("damaged", True)


# ---- bombs


def test_a_page_of_endless_operators_ends_at_its_limit(tmp_path: Path) -> None:
    """P7-01: 11 KB that cost pypdf half a minute."""
    failed = refused(tmp_path, document([operators()]), HASTY)
    assert failed.kind == "resource_limit"
    assert "longer than a page may" in failed.message


def test_the_pages_around_a_bomb_are_kept(tmp_path: Path) -> None:
    """P7-01: the others go on."""
    content = document(
        [text_content("One", SENTENCE), operators(), text_content("Three", SENTENCE)]
    )
    found = read(tmp_path, content, HASTY)
    assert [page.text[:5] for page in found.pages] == ["One\nT", "", "Three"]
    assert found.problem == "Page 2 was not read: it took longer than a page may."
    assert found.without_text == (2,)


@pytest.mark.parametrize(
    "bomb", [nested_forms, self_drawing_form, long_string, nested_array], ids=lambda b: b.__name__
)
def test_a_bomb_ends_in_time_with_a_named_outcome(tmp_path: Path, bomb: object) -> None:
    """P7-01: whatever it does to pypdf, it is bounded, and never text without a word."""
    assert callable(bomb)
    try:
        found = read(tmp_path, bomb(), HASTY)
    except StepFailed as failed:
        assert failed.kind in ("resource_limit", "damaged")
    else:
        assert found.without_text == (1,)


def test_a_bomb_stays_within_its_memory(tmp_path: Path) -> None:
    """P7-01: 70 KB that become 70 million letters meet the child's limit, not the worker's."""
    tight = replace(DEFAULTS, memory_bytes=400 << 20, page_seconds=30)
    failed = refused(tmp_path, long_string(), tight)
    assert failed.kind == "resource_limit"


def test_an_abort_is_heard_while_a_page_is_read(tmp_path: Path) -> None:
    signal = AbortSignal()
    threading.Timer(0.7, signal.abort, ["stop"]).start()
    start = time.monotonic()
    with pytest.raises(Aborted, match="stop"):
        extract(written(tmp_path, document([operators()])), DEFAULTS, signal)
    assert time.monotonic() - start < 3


# ---- real papers, where there are any


@pytest.mark.skipif(not (CORPUS / "facts.json").exists(), reason="no corpus at hand")
def test_real_papers_give_the_pages_they_have() -> None:
    facts = json.loads((CORPUS / "facts.json").read_text())
    papers = [fact for fact in facts if fact["refs"] and fact["size"] < 300_000][:4]
    assert papers
    for fact in papers:
        found = extract(CORPUS / fact["file"], DEFAULTS, NEVER)
        assert (found.page_count, found.problem) == (fact["pages"], "")
        assert len(found.full_text) > 0.9 * fact["pypdf"]["chars"]


@pytest.mark.skipif(not (CORPUS / "pdfminer.six__jo.pdf").exists(), reason="no corpus at hand")
def test_letters_of_another_script_are_not_passed_on_as_text() -> None:
    """Fonts without a map to letters: pypdf reads Japanese as Greek, and says nothing."""
    found = extract(CORPUS / "pdfminer.six__jo.pdf", DEFAULTS, NEVER)
    assert found.without_text == (1,)
    assert "do not say which letters" in found.problem
