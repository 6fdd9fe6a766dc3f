"""Whether a page's text is legible, or garbage from a broken font. Pure."""

# ruff: noqa: RUF001 - typographic apostrophes and dashes are what papers print

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from string import ascii_letters

ENOUGH_LETTERS = 50
"""A page with fewer letters than this has no usable text layer: a page number and a running head."""

JUDGED_FROM = 200
"""Characters from which the share of words is checked; shorter texts may be tables or titles."""

WORDS_SHARE = 0.5
"""With a smaller share of word-like tokens a page is garbage. Of 799 good pages, including lists of
authors and formulas, the lowest share was 0.69; Chinese read as Latin-1 has 0.2."""

LOST_SHARE = 0.05
"""With a larger share of unknown characters (U+FFFD, `(cid:7)`) a page is garbage."""

LONGEST_WORD = 40
"""Letters of the longest token that counts as a word, in scripts with spaces between words."""

BETWEEN_EDGES = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)
"""From a token's first letter or digit to its last."""

MARK = r"\d{1,3}[a-z]{0,2}"
WORD = re.compile(rf"[^\W\d_]+(?:['’\-–./][^\W\d_]+)*(?:{MARK}(?:,{MARK})*)?|[\d.,:/%–−-]+")
"""A word with the numbers of its footnotes or affiliations, or a number."""
SPACELESS = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Scripts without spaces between words: Thai to Khmer, Japanese, Chinese."""

ASCII_LETTERS = ascii_letters.encode()
NOT_ASCII = re.compile("[^\0-\x7f]+")

ACCENTED = re.compile("[\u00a1-\u00bf\u00c0-\u00ff]")
LOST = re.compile(r"\ufffd|\(cid:\d+\)")


def letters(text: str) -> int:
    """The number of letters, of any script."""
    found = text.encode("ascii", "ignore")
    others = "" if len(found) == len(text) else "".join(NOT_ASCII.findall(text))
    return len(found) - len(found.translate(None, ASCII_LETTERS)) + sum(map(str.isalpha, others))


def problem_with(text: str) -> str:
    """Why the text is illegible, in words; "" if it is legible."""
    lost = sum(len(match[0]) for match in LOST.finditer(text))
    if lost > LOST_SHARE * len(text):
        return "many of its characters are unknown"
    if len(text) >= JUDGED_FROM and word_share(text) < WORDS_SHARE:
        return "few of its words look like words"
    return ""


def word_share(text: str) -> float:
    """The share of words and numbers among the tokens that are not only punctuation."""
    tokens = words = 0
    for token, times in bare_tokens(text):
        tokens += times
        words += times * is_wordlike(token)
    return words / tokens if tokens else 1.0


def bare_tokens(text: str) -> Iterator[tuple[str, int]]:
    """Its different tokens, without punctuation around them, and how often each is there; without those that
    are only punctuation."""
    for token, times in Counter(text.split()).items():
        if inner := token if token.isalnum() else bare(token):
            yield inner, times


def bare(token: str) -> str:
    found = BETWEEN_EDGES.search(token)
    return found[0] if found else ""


def is_wordlike(token: str) -> bool:
    """A word, a number, or a run of a script without spaces."""
    if token.isascii() and token.isalpha():
        return len(token) <= LONGEST_WORD
    if SPACELESS.search(token):
        return True
    if len(token) > LONGEST_WORD or len(ACCENTED.findall(token)) * 3 > 2 * len(token) > 4:
        return False
    return WORD.fullmatch(token) is not None
