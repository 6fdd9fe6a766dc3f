"""Cut a text into pieces of at most so many tokens, each as long as fits, counting every token about twice.

The tokenizer's library cuts by itself, but counts each token ten times to find where. So where to cut is
estimated, and the library is asked only whether what is left of there fits: first without its last tenth.
Only where not even that fits does the library search, and the estimates after it are as it found them. Pure.
"""

# ruff: noqa: RUF001 - a Japanese text is punctuated in Japanese

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semantic_text_splitter import TextSplitter

MODEL = "gpt-4o"
"""Selects the vocabulary, o200k: the largest, and the closest to those of newer models."""

_ONE_EACH = "\u2e80-\U0010ffff"
"""East Asian characters, and emoji."""

ESTIMATED_TOKEN = re.compile(
    rf"[a-zA-Z]{{1,7}}|[{_ONE_EACH}]|[^\W\d_{_ONE_EACH}]{{1,4}}|\d{{1,3}}|\n+|[^\w\s]{{1,2}}|_"
)
"""About what is a token: papers in twenty languages have 0.65 to 1.1 times as many."""

HEAD = 0.9
"""The part of a piece that is to fit if all of it does not."""

LONGER, SHORTER = 1.04, 0.97
"""By how much the next piece is tried longer after one that fitted, and shorter after one that did not."""

SAMPLE, SAMPLES = 500, 4
"""Estimated tokens of a sample, and samples of a text: how many tokens these have is counted."""

BORDER = "\n" * 64
"""The library cuts here first: chunks have fewer line ends in a row."""

ENDINGS: Sequence[tuple[float, tuple[str, ...]]] = (
    (1 / 3, ("\n\n",)),
    (1 / 10, (".\n", "?\n", "!\n", "。", "．", ". ", "? ", "! ")),
    (1 / 10, ("\n",)),
    (1 / 10, (" ",)),
)
"""Where a text is best cut, and in what part of a piece, counted from its end, one is looked for."""


def split(text: str, tokens: int) -> list[str]:
    """Pieces of at most `tokens`, which end at a blank line (which precedes headings), at the end of a
    sentence or of a line, or between words, if one is near."""
    pieces = (text[start:end].strip() for start, end in pairwise((0, *_Cutter(text, tokens).cuts())))
    return [piece for piece in pieces if piece]


def tokens_in(text: str, ceiling: int) -> int:
    """Tokens of a text that has at most `ceiling`, rounded up by a 32nd or so."""
    marks = _estimated_ends(text)
    if len(marks) <= SAMPLE * SAMPLES:
        return _searched(text, ceiling)
    guess = len(marks) * _real_for_one(text, marks, 0, len(marks))
    step = guess / 32
    while guess < ceiling and not _fits(text, int(guess)):
        guess, step = guess + step, 2 * step
    return min(ceiling, int(guess))


def _searched(text: str, ceiling: int) -> int:
    """As `tokens_in`, for a short text."""
    low, high = 0, ceiling
    while high - low > max(16, high // 32):
        middle = (low + high) // 2
        low, high = (low, middle) if _fits(text, middle) else (middle, high)
    return high


def _estimated_ends(text: str) -> Sequence[int]:
    return array("L", (found.end() for found in ESTIMATED_TOKEN.finditer(text)))


def _real_for_one(text: str, marks: Sequence[int], first: int, last: int) -> float:
    """Tokens for each estimated one between two of these, as a few samples have them; 1 where none is."""
    step = max(SAMPLE, (last - first) // SAMPLES)
    ends = ((at, min(at + SAMPLE, last) - 1) for at in range(first, last, step))
    sample = "".join(text[marks[begin] : marks[end]] for begin, end in ends)
    estimated = len(_estimated_ends(sample))
    return _searched(sample, 4 * estimated) / estimated if estimated else 1.0


class _Cutter:
    """`reach` is how many of the estimated tokens a piece is expected to hold."""

    def __init__(self, text: str, tokens: int) -> None:
        self._text, self._tokens = text, tokens
        self._marks = _estimated_ends(text)
        self._reach = self._reach_in(0, len(self._marks))

    def cuts(self) -> Iterator[int]:
        """Where each piece ends, in order."""
        start = 0
        while start < len(self._text):
            first = bisect_right(self._marks, start)
            head, end = self._ending(start, first, HEAD), self._ending(start, first, 1.0)
            begins = _begins(self._text[start:head], self._text[head:end], self._tokens)
            cuts = [start + begin for begin in begins[1:]] or [end]
            yield from cuts
            if cuts[0] < head:
                self._reach = min(self._reach_in(first, bisect_right(self._marks, head)), HEAD * self._reach)
            elif cuts[0] < end:
                self._reach *= SHORTER
            elif bisect_right(self._marks, end) - first > HEAD * self._reach:  # it ends near its reach
                self._reach *= LONGER
            start = cuts[-1]

    def _ending(self, start: int, first: int, part: float) -> int:
        """Where the text is best cut for a piece of this part of the reach."""
        last = first + int(part * self._reach)
        return _best(self._text, start, self._marks[last]) if last < len(self._marks) else len(self._text)

    def _reach_in(self, first: int, last: int) -> float:
        """For this part of the text."""
        return max(1.0, self._tokens / _real_for_one(self._text, self._marks, first, last))


def _best(text: str, start: int, end: int) -> int:
    """The best place to cut a text before `end`."""
    for part, endings in ENDINGS:
        low = end - int(part * (end - start))
        if (found := max(text.rfind(ending, low, end) + len(ending) for ending in endings)) > low:
            return found
    return end


def _fits(text: str, tokens: int) -> bool:
    return len(_begins(text, "", tokens)) <= 1


def _begins(head: str, tail: str, tokens: int) -> list[int]:
    """Where the pieces begin that the library cuts both into, together: one if all of it fits, two if the
    head does, several where it searches."""
    found = _splitter(tokens).chunk_indices(f"{head}{BORDER}{tail}{BORDER}")
    return [at if at <= len(head) else max(len(head), at - len(BORDER)) for at, _ in found]


@lru_cache(maxsize=64)
def _splitter(tokens: int) -> TextSplitter:
    # Imported here: 18 MB of vocabularies that only processes using a model need.
    from semantic_text_splitter import TextSplitter

    return TextSplitter.from_tiktoken_model(MODEL, tokens)
