"""Which pages' text layers are not the page: a stamp on a scan, a bad OCR layer, lost letters. Pure.

A page is judged by what it shows: how much of it pictures cover, and the text that is its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from unicodedata import normalize

from pipeline.steps.extract.legibility import bare_tokens, is_wordlike, letters

RECURRING_SHARE = 0.4
"""A line on this share of the pages is a stamp or a running head. With it and `SCANNED_SHARE`, none of 900
pages that had a text layer of their own was taken for a scan."""

RECURRING_PAGES = 2
"""Pages on which a line must be, at least, to recur."""

LITTLE_OF_ITS_OWN = 400
"""Letters of a page's own below which a picture that covers it is taken for the page: a stamp of a
library's terms has about a hundred, a page of text a thousand."""

SCANNED_SHARE = 0.8
"""Share of a page that pictures cover from which it may be a scan."""

GOOD_LAYER = 0.75
"""Share of plausible words in the text layer of a scan below which it is read again. Pages of formulas have
as little as 0.46, but no picture that covers them."""

MOST_LOST = 3
"""Lost letters from which a page is read otherwise: a formula may have one or two."""

DIGITS = re.compile(r"\d+")
LOST_LETTER = re.compile("[\x00-\x08\x0e-\x1f](?=[^\\W\\d_])")
"""Characters without a shape before a letter: `fi` of a font that maps it to nothing."""

VOWELS = re.compile("[aeiouyæøœ\u0131]", re.IGNORECASE)
LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]+")


class Doubt(StrEnum):
    """Why a page's text layer is not taken for the page."""

    NONE = ""
    STAMP = "stamp"
    LAYER = "layer"
    LOST = "lost"
    FORCED = "forced"


WORDS: Mapping[Doubt, str] = {
    Doubt.STAMP: "a scan with little text of its own over it",
    Doubt.LAYER: "a scan whose text layer is hard to read",
    Doubt.LOST: "letters are missing in its text layer",
    Doubt.FORCED: "OCR of every page was asked for",
}
"""The doubts in words, for the report."""


def doubt_of_scan(own: int, text: str, covered: float) -> Doubt:
    """The doubt about a page with so many letters of its own, of which pictures cover this share."""
    if covered < SCANNED_SHARE:
        return Doubt.NONE
    if own < LITTLE_OF_ITS_OWN:
        return Doubt.STAMP
    return Doubt.LAYER if layer_quality(text) < GOOD_LAYER else Doubt.NONE


def own_letters(texts: Mapping[int, str]) -> dict[int, int]:
    """Letters of each page that are not in lines which recur, whatever their numbers are."""
    lines = {number: list(masked_lines(text)) for number, text in texts.items()}
    pages = Counter(line for found in lines.values() for line in {line for line, _ in found})
    most = max(RECURRING_PAGES, RECURRING_SHARE * len(texts))
    return {
        number: sum(count for line, count in found if pages[line] < most) for number, found in lines.items()
    }


def masked_lines(text: str) -> Iterator[tuple[str, int]]:
    """The lines without their numbers, and how many letters each has."""
    for line in text.splitlines():
        masked = " ".join(DIGITS.sub("0", line).split()).casefold()
        if masked:
            yield masked, letters(line)


def layer_quality(text: str) -> float:
    """The share of words, as OCR that fails does not write them, among all tokens with a letter."""
    tokens = plausible = 0
    for token, times in bare_tokens(text):
        if token.isalpha() or any(map(str.isalpha, token)):
            tokens += times
            plausible += times * is_plausible(token)
    return plausible / tokens if tokens else 1.0


def is_plausible(word: str) -> bool:
    """Whether it is like a word: not one letter of many, no `qnck` without a vowel, no `tbe1ow`."""
    if not is_wordlike(word):
        return False
    if not LATIN.fullmatch(word):
        return len(word) > 1 or not LATIN.match(word)
    if len(word) == 1:
        return word in "aAIOyeè"
    return word.isupper() or len(word) < 4 or VOWELS.search(normalize("NFD", word)) is not None


def lost_letters(raw: str) -> int:
    """Letters that a font of the page maps to nothing, in its text before it is cleaned."""
    return len(LOST_LETTER.findall(raw.replace("\x02\n", "")))


LARGE_PART = 0.9
"""Of the letters of a layer in which some are lost, OCR must have found so many to be used."""


def is_better(read: str, layer: str, doubt: Doubt) -> bool:
    """Whether what OCR read of a page is more than its text layer."""
    if doubt == Doubt.FORCED:
        return letters(read) > 0
    if doubt == Doubt.LOST:
        return word_letters(read) > LARGE_PART * word_letters(layer)
    return word_letters(read) > word_letters(layer)


def word_letters(text: str) -> int:
    """Letters in what is like a word."""
    return sum(times * len(token) for token, times in bare_tokens(text) if is_plausible(token))
