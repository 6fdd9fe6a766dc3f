"""Which engine's text is used, without running an engine."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pipeline.steps.extract.engine_choice import (
    LITTLE_TEXT,
    EngineText,
    choose_text,
    engine_text,
    exceeded_limits,
    is_doubtful,
)
from pipeline.steps.pdf.how_it_ended import ChildProcess, Ended
from pipeline.steps.pdf.sandbox import Ending, ReadResult

TEXT = "The quick brown fox jumps over the lazy dog, and so it continues for a while."


def reading(**line: Any) -> ReadResult:
    return ReadResult(count=1, lines={1: {"page": 1, **line}})


def test_good_text_of_the_first_engine_is_taken_without_the_second() -> None:
    first = engine_text(reading(text=TEXT), 1)
    assert not is_doubtful(first)
    page, cut = choose_text(1, first, None)
    assert (page.text, page.source, page.reason, cut) == (TEXT, "pdfium", "", False)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (reading(text="", error="PdfiumError"), "PDFium: it cannot read the page (PdfiumError)"),
        (reading(text=TEXT, fonts="nameless"), "PDFium: its fonts have no character map"),
        (reading(text="\ufffd" * 300), "PDFium: many of its characters are unknown"),
        (reading(text="12", draws=True), f"PDFium: {LITTLE_TEXT}"),
        (reading(text=TEXT, odd="turned"), "PDFium: most of its lines are turned"),
        (reading(text=TEXT, odd="arabic"), "PDFium: most of its letters are Arabic"),
        (reading(text=3 * "\x01nd " + TEXT), "PDFium: letters are missing in its text"),
        (ReadResult(count=1, failed={1: Ending("page_seconds")}),
         "PDFium: it exceeded the time limit of a page"),
        (ReadResult(refused={"refused": "damaged", "detail": "PdfiumError"}),
         "PDFium: it cannot open the file (PdfiumError)"),
    ],
)  # fmt: skip
def test_pages_the_first_engine_cannot_read_come_from_the_second_with_the_reason(
    first: ReadResult, reason: str
) -> None:
    doubtful = engine_text(first, 1)
    assert is_doubtful(doubtful)
    page, _ = choose_text(1, doubtful, engine_text(reading(text=TEXT), 1))
    assert (page.text, page.source, page.reason) == (TEXT, "pypdf", reason)


def test_a_page_with_little_text_stays_with_the_first_engine_if_the_second_finds_no_more() -> None:
    few = engine_text(reading(text="12 Discussion", draws=True), 1)
    page, _ = choose_text(1, few, engine_text(reading(text="Discussion 12"), 1))
    assert (page.text, page.source, page.reason) == ("12 Discussion", "pdfium", "")


def test_a_page_neither_engine_reads_has_failed_and_names_both() -> None:
    first = engine_text(ReadResult(count=1, failed={1: Ending("memory")}), 1)
    second = engine_text(ReadResult(count=1, failed={1: Ending("crashed", "SIGABRT")}), 1)
    page, _ = choose_text(1, first, second)
    assert (page.text, page.source) == ("", "failed")
    assert page.reason == (
        "PDFium: it needed more memory than allowed; pypdf: it crashed the program reading it (SIGABRT)"
    )


def test_letters_that_neither_engine_can_name_are_no_text() -> None:
    nameless = engine_text(reading(text=TEXT, fonts="nameless"), 1)
    page, _ = choose_text(1, nameless, nameless)
    assert (page.text, page.source) == ("", "failed")


def test_a_page_with_nothing_more_to_find_is_not_read_a_second_time() -> None:
    """A scan, or a page with its number only."""
    assert not is_doubtful(engine_text(reading(text="12", draws=False), 1))


@pytest.mark.parametrize("odd", ["turned", "arabic"])
def test_an_odd_page_stays_with_the_first_engine_if_the_second_finds_less(odd: str) -> None:
    page, _ = choose_text(
        1, engine_text(reading(text=TEXT, odd=odd), 1), engine_text(reading(text="quick"), 1)
    )
    assert (page.text, page.source, page.reason) == (TEXT, "pdfium", "")


def test_text_left_out_for_its_length_is_no_reason_to_read_again() -> None:
    assert not is_doubtful(engine_text(reading(text="", cut=True), 1))


def test_removed_characters_are_counted_per_page() -> None:
    page, _ = choose_text(1, engine_text(reading(text=TEXT + "\x00\x01"), 1), None)
    assert (page.cleaned, page.text) == (2, TEXT)


def test_a_page_without_a_result_says_so() -> None:
    assert engine_text(ReadResult(count=3), 2) == EngineText(problem="no result")


@pytest.mark.parametrize(
    ("read", "exceeded"),
    [
        (reading(text=TEXT), False),
        (reading(text="", error="PdfReadError"), False),
        (reading(text="", error="LimitReachedError"), True),
        (ReadResult(refused={"refused": "limit"}), True),
        (ReadResult(refused={"refused": "damaged"}), False),
        (ReadResult(count=1, failed={1: Ending("memory", "SIGABRT")}), True),
        (ReadResult(count=1, failed={1: Ending("crashed", "SIGSEGV")}), False),
        (ReadResult(count=9, stopped=Ending("document_seconds")), True),
    ],
)
def test_a_page_that_takes_too_much_is_told_from_one_that_is_damaged(
    read: ReadResult, exceeded: bool
) -> None:
    assert exceeded_limits(read, 1) is exceeded


def test_a_process_that_aborts_with_much_memory_ran_out_of_it() -> None:
    ends = [Ended(-6, 300), Ended(-6, 200), Ended(-11, 900), Ended(0, 900)]
    assert [end.ran_out_of(1000) for end in ends] == [True, False, False, False]
    assert [end.name for end in ends] == ["SIGABRT", "SIGABRT", "SIGSEGV", "exit 0"]


def test_what_the_worker_holds_is_not_taken_for_its_child_s() -> None:
    held = bytearray(64 << 20)
    child = ChildProcess([sys.executable, "-ISc", "import os; os.abort()"])
    ended = child.ended()
    assert len(held) and ended.status == -6
    assert not ended.ran_out_of(len(held))
