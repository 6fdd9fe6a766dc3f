"""Whether a quote stands in a paper, and on which page. Pure.

Text and quotes are compared by their letters, digits and signs of mathematics alone: case, ligatures,
accents, blanks, quotation marks, dashes and hyphens at line ends do not count. What changes a number does: a
sign before a digit, a point or a slash between two. A quote begins and ends where words do, so that
`significant` is not found in `insignificant`, nor `5 litres` in `15 litres`.
"""

# ruff: noqa: RUF001 - typographic signs are what papers print

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from pipeline.steps.extract.page_lines import PAGE_MARK

VERIFIED, CORRECTED, NOT_FOUND, TOO_SHORT, NO_QUOTE = (
    "verified", "corrected", "not found", "too short", "no quote",
)  # fmt: skip

SHORTEST = 10
"""Letters and digits of a quote that says something; East Asian ones count twice."""

LONGEST = 500
"""Characters of a quote that are looked for: what follows is left out."""

TRIES = 50
"""Places where a quote stands within words, after which it is not found."""

HYPHENS, DASHES, OMITTED = "-\u2010\u2011", "\u2012\u2013\u2014\u2015\u2212", "'\u2019\u2018\u02bc`´\ufffd"
BETWEEN_DIGITS = ".,:/"
KEPT = "%‰°"

HYPHEN = re.compile(r"-(?!\s*\d)(?:[ ]*\n\s*)?")
DASH = re.compile(r"–(?!\s*\d)")
PUNCTUATION = re.compile(r"(?<!\d)[.,:/]|[.,:/](?!\d)")
UNSPACED = re.compile("[\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff\u1100-\u11ff]")
"""Scripts without blanks between words, and the letters of Korean syllables."""


def bounded_quote(quote: str) -> str:
    """As many whole words of a quote as are looked for."""
    if len(quote) <= LONGEST:
        return quote
    head = quote[: LONGEST + 1]
    return head[:LONGEST] if head[-1].isspace() else head.rpartition(" ")[0] or head[:LONGEST]


class Place(NamedTuple):
    """What was found out about a quote, and the page where it stands, if that is known."""

    verdict: str
    page: int | None = None


class _Forms(dict[int, str]):
    """What a character is compared by; made for those that occur."""

    def __missing__(self, code: int) -> str:
        self[code] = form = _form(chr(code))
        return form


def _form(char: str) -> str:
    if char == "\n" or char.isspace():
        return "\n" if char == "\n" else " "
    if char in HYPHENS:
        return "-"
    if char in DASHES:
        return "–"
    if char in OMITTED or unicodedata.category(char) in ("Cf", "Cc"):
        return ""
    return "".join(map(_part, unicodedata.normalize("NFKD", char).casefold()))


def _part(char: str) -> str:
    """A part of a decomposed character: accents are left out, signs of punctuation are a blank."""
    if char == "\u2044":
        return "/"
    category = unicodedata.category(char)
    if category[0] == "M":
        return "" if unicodedata.combining(char) else char
    kept = char.isalnum() or category == "Sm" or char in KEPT or char in BETWEEN_DIGITS
    return char if kept else " "


def _words(text: str, forms: _Forms) -> list[str]:
    text = HYPHEN.sub("", text.translate(forms))
    return PUNCTUATION.sub(" ", DASH.sub(" ", text).replace("–", "-")).split()


class PaperText:
    """The text of a paper, with or without `[PAGE n]` lines, made comparable once."""

    def __init__(self, text: str) -> None:
        self._forms = _Forms()
        first, *marked = PAGE_MARK.split(text)
        pages = [first, *marked[1::2]]
        self._numbers = [0, *map(int, marked[::2])]
        words = [_words(page, self._forms) for page in pages]
        self._starts = [0, *accumulate(sum(map(len, page)) for page in words)]
        flat = [word for page in words for word in page]
        self._text = "".join(flat)
        self._ends = array("q", accumulate(map(len, flat), initial=0))

    def place(self, quote: str, page: int | None) -> Place:
        """Whether this quote stands in the paper: on the page that is said, else on the first that has it."""
        wanted = "".join(_words(bounded_quote(quote), self._forms))
        if not wanted:
            return Place(NO_QUOTE)
        if len(wanted) + len(UNSPACED.findall(wanted)) < SHORTEST:
            return Place(TOO_SHORT)
        if page in self._numbers:
            at = self._numbers.index(page)
            low, high = self._starts[at] - len(wanted) + 1, self._starts[at + 1] + len(wanted) - 1
            if self._found(wanted, max(0, low), high) is not None:
                return Place(VERIFIED, page or None)
        found = self._found(wanted, 0, len(self._text))
        if found is None:
            return Place(NOT_FOUND)
        number = self._numbers[bisect_right(self._starts, found, hi=len(self._numbers)) - 1]
        return Place(CORRECTED if number else VERIFIED, number or None)

    def _found(self, wanted: str, low: int, high: int) -> int | None:
        """The first place in this part of the text where it stands as whole words."""
        for _ in range(TRIES):
            at = self._text.find(wanted, low, high)
            if at < 0:
                return None
            if self._is_edge(at) and self._is_edge(at + len(wanted)):
                return at
            low = at + 1
        return None

    def _is_edge(self, at: int) -> bool:
        """Whether a word may begin or end here."""
        near = bisect_left(self._ends, at)
        if near < len(self._ends) and self._ends[near] == at:
            return True
        before, after = self._text[at - 1], self._text[at]
        if UNSPACED.match(before) or UNSPACED.match(after):
            return True
        return (before.isalpha() and after.isdigit()) or (before.isdigit() and after.isalpha())


def places(text: str, quotes: Sequence[tuple[str, int | None]]) -> list[Place]:
    """Where each of these quotes stands, beside the page that is said of it."""
    paper = PaperText(text)
    return [paper.place(quote, page) for quote, page in quotes]
