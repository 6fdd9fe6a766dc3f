"""Which text layers are not the page: decided by what recurs, what is covered, and what looks like words."""

from __future__ import annotations

import random

import pytest

from pipeline.steps.extract.doubtful_layers import (
    Doubt,
    doubt_of_scan,
    is_better,
    layer_quality,
    lost_letters,
    own_letters,
)
from pipeline.steps.extract.page_text import PageText
from pipeline.steps.ocr.ocr import page_of
from pipeline.steps.pdf.page_outcomes import PageFailed, PageOutcome, PdfError

PROSE = (
    "The water of the river rose during the night, and the gates that had been closed since spring were "
    "opened one after the other until the level of the upper basin had fallen by a metre. "
) * 4
HEAD = "Journal of Made Gates 12 (2024) 101-117"
STAMPS = {
    "terms": "This content downloaded from 192.0.2.{n} on Tue, 0{n} Mar 2022 06:49:3{n} UTC\n"
    "All use subject to https://archive.example.org/terms",
    "bates": "CONFIDENTIAL - SUBJECT TO PROTECTIVE ORDER OF THE COURT\nGATES-000{n}12",
    "library": "Property of the Library of the Lowland Weir Society, not for loan outside of its rooms",
    "digital header": "Case 1:2{n}-cv-0000{n} Document {n}7 Filed 03/0{n}/22 Page {n} of 9 "
    "in the Eastern District of the Lowland Weirs",
}


def doubts(texts: dict[int, str]) -> dict[int, Doubt]:
    """Of pages that pictures cover."""
    own = own_letters(texts)
    return {number: doubt_of_scan(own[number], text, covered=1.0) for number, text in texts.items()}


@pytest.mark.parametrize("pages", [1, 2, 3, 9])
@pytest.mark.parametrize("stamp", STAMPS)
def test_a_stamp_on_scans_is_no_text_of_the_page_however_many_pages_there_are(stamp: str, pages: int) -> None:
    texts = {n: STAMPS[stamp].format(n=n) for n in range(1, pages + 1)}
    assert doubts(texts) == dict.fromkeys(texts, Doubt.STAMP)


@pytest.mark.parametrize("stamp", STAMPS)
def test_a_cover_page_with_text_is_not_doubted_and_the_stamped_scans_behind_it_are(stamp: str) -> None:
    stamped = {n: STAMPS[stamp].format(n=n) for n in range(2, 6)}
    found = doubts({1: f"{PROSE}\n{STAMPS[stamp].format(n=1)}", **stamped})
    assert found == {1: Doubt.NONE, **dict.fromkeys(stamped, Doubt.STAMP)}


def test_a_long_stamp_that_recurs_is_none_of_the_pages_own_text() -> None:
    texts = {n: f"{PROSE}\n{n}" for n in range(1, 4)}
    assert own_letters(texts) == {1: 0, 2: 0, 3: 0}


def test_pages_of_text_under_a_running_head_are_not_doubted() -> None:
    lines = PROSE.split()
    texts = {n: f"{HEAD}\n{n}\n{' '.join(random.Random(n).sample(lines, 100))}" for n in range(1, 9)}
    assert doubts(texts) == dict.fromkeys(texts, Doubt.NONE)


@pytest.mark.parametrize("covered", [0.0, 0.5, 0.79])
@pytest.mark.parametrize("text", ["Figure 3. Gates.", STAMPS["library"], "qnck brwn f0x jnmps " * 60])
def test_without_a_picture_that_covers_the_page_no_layer_is_doubted(covered: float, text: str) -> None:
    assert doubt_of_scan(3, text, covered) == Doubt.NONE


def noisy(text: str, share: float, seed: int) -> str:
    """As OCR of a bad scan writes it."""
    chance = random.Random(seed)
    like = {"e": "c", "o": "0", "l": "1", "i": "!", "u": "n", "a": "@", "t": "+", "s": "5", "h": "li"}
    return "".join(like.get(sign, sign) if chance.random() < share else sign for sign in text)


@pytest.mark.parametrize("seed", range(5))
def test_a_bad_layer_of_ocr_is_doubted_and_a_good_one_is_not(seed: int) -> None:
    bad, good = noisy(PROSE, 0.5, seed), noisy(PROSE, 0.02, seed)
    assert doubt_of_scan(2000, bad, 1.0) == Doubt.LAYER
    assert doubt_of_scan(2000, good, 1.0) == Doubt.NONE
    assert is_better(good, bad, Doubt.LAYER) and not is_better(bad, good, Doubt.LAYER)


@pytest.mark.parametrize(
    "bad", [" ".join(PROSE), "".join(" " if sign in "aeiou" else sign for sign in PROSE), "mnrw vvlt " * 80]
)
def test_letters_apart_and_words_without_vowels_are_no_words(bad: str) -> None:
    assert layer_quality(bad) < 0.6 < 0.95 < layer_quality(PROSE)


@pytest.mark.parametrize(
    "text",
    ["小型闸门的双水位调度" * 30, "Вода поднялась ночью и открыла ворота " * 9, "水位が上がった。" * 40,
     "ارتفع الماء أثناء الليل " * 20, "Zażółć gęślą jaźń nad rzeką " * 20],
)  # fmt: skip
def test_texts_of_other_scripts_are_good_layers(text: str) -> None:
    assert layer_quality(text) > 0.9


@pytest.mark.parametrize(
    ("raw", "lost"),
    [("signi\x00cant, the \x00rst of \x01ve", 3), ("a hy\x02\nphen is none", 0), ("x \x00 1, n\x001", 0),
     ("\x00\x00nd", 1), ("plain", 0)],
)  # fmt: skip
def test_letters_that_a_font_maps_to_nothing_are_counted(raw: str, lost: int) -> None:
    assert lost_letters(raw) == lost


FAILED: PageFailed = PdfError("The page could not be drawn.", kind="damaged")


@pytest.mark.parametrize("doubt", [Doubt.STAMP, Doubt.LAYER, Doubt.LOST, Doubt.FORCED])
def test_the_better_of_layer_and_ocr_is_kept_and_both_say_why(doubt: Doubt) -> None:
    before = PageText(1, noisy(PROSE, 0.5, 1), "pypdf", doubt=doubt)
    read = page_of(PageOutcome(1, 1, PROSE), before)
    assert (read.text, read.source) == (PROSE, "ocr") and read.reason
    if doubt != Doubt.FORCED:
        kept = page_of(PageOutcome(1, 1, "12"), before)
        assert (kept.text, kept.source) == (before.text, "pypdf") and "OCR read no more" in kept.reason
    failed = page_of(PageOutcome(1, 1, error=FAILED), before)
    assert (failed.text, failed.source) == (before.text, "pypdf") and "could not be drawn" in failed.reason
    assert page_of(PageOutcome(1, 1, blank=True), before) == before
