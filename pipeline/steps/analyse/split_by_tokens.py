"""Cut a text into pieces of at most so many tokens, each as long as fits, counting every token about twice.

The tokenizer's library cuts by itself, but counts each token ten times to find where. So where to cut is
estimated, and the library is asked only whether what is left of there fits: first without its last tenth.
Only where not even that fits does the library search, first between parts that it is given, and the estimates
after it are as it found them: a search within takes as long as counting forty times. Pure.
"""

# ruff: noqa: RUF001 - a Japanese text is punctuated in Japanese

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semantic_text_splitter import TextSplitter

MODEL = "gpt-4o"
"""Selects the vocabulary, o200k: the largest, and the closest to those of newer models."""

_ONE_EACH = "\u2e80-\U0010ffff"
"""East Asian characters, and emoji."""

ESTIMATED_TOKEN = re.compile(
    rf"[a-zA-Z]{{1,7}}|[{_ONE_EACH}]|[^\W\d_{_ONE_EACH}]{{1,4}}|\d{{1,3}}|\n+"
    r"|([-=*#./~%:;])\1{3,15}|[^\w\s]{1,2}|_{1,16}| {2,16}|[^\S\n ]"
)
"""About what is a token: papers in twenty languages have 0.65 to 1.1 times as many, and what is
made for it a quarter or five times."""

HEAD = 0.9
"""The part of a piece that is to fit if all of it does not."""

LONGER, SHORTER = 1.04, 0.97
"""By how much the next piece is tried longer after one that fitted, and shorter after one that did not."""

MOST_PARTS, TOKENS_OF_A_PART = 7, 1_000
"""Of a text that may not fit: the library looks between them first, for a tenth of a search within."""

SAMPLE, SAMPLES = 500, 4
"""Estimated tokens of a sample, and samples of a text: how many tokens these have is counted."""

LONGEST_SAMPLE = 2_500
"""Characters: papers have three to five for each estimated token."""

BORDER = "\n" * 64
"""The library cuts here first: chunks have fewer line ends in a row."""

ENDINGS: Sequence[tuple[float, tuple[str, ...]]] = (
    (1 / 3, ("\n\n",)),
    (1 / 10, (".\n", "?\n", "!\n", "。", "．", ". ", "? ", "! ")),
    (1 / 10, ("\n",)),
    (1 / 10, (" ",)),
)
"""Where a text is best cut, and in what part of a piece, counted from its end, one is looked for."""


def cuts_of(text: str, tokens: int) -> list[int]:
    """Where a text is cut into pieces of at most `tokens`, its end included: at a blank line (which precedes
    headings), at the end of a sentence or of a line, or between words, if one is near."""
    return list(_Cutter(text, tokens).cuts())


def tokens_in(text: str, ceiling: int) -> int:
    """Tokens of a text that has at most `ceiling`, rounded up by a 32nd or so."""
    marks = _estimated_ends(text)
    if len(marks) <= SAMPLE * SAMPLES and len(text) <= LONGEST_SAMPLE * SAMPLES:
        return _searched(text, ceiling)
    size = -(-len(text) // _parts_of(len(marks)))
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    guess = len(marks) * _real_for_one(text, marks)
    step = guess / 32
    while guess < ceiling and not _fits(parts, int(guess)):
        guess, step = guess + step, 2 * step
    return min(ceiling, int(guess))


def _searched(text: str, ceiling: int) -> int:
    """As `tokens_in`, for a short text."""
    low, high = 0, ceiling
    while high - low > max(16, high // 32):
        middle = (low + high) // 2
        low, high = (low, middle) if _fits([text], middle) else (middle, high)
    return high


def _estimated_ends(text: str) -> Sequence[int]:
    return array("L", (found.end() for found in ESTIMATED_TOKEN.finditer(text)))


def _real_for_one(text: str, marks: Sequence[int]) -> float:
    """Tokens for each estimated one, as a few samples have them; 1 where there is none."""
    step = max(SAMPLE, len(marks) // SAMPLES)
    spans = ((marks[at], marks[min(at + SAMPLE, len(marks)) - 1]) for at in range(0, len(marks), step))
    sample = "".join(text[begin : min(end, begin + LONGEST_SAMPLE)] for begin, end in spans)
    estimated = len(_estimated_ends(sample))
    return _searched(sample, 4 * estimated) / estimated if estimated else 1.0


class _Cutter:
    """`reach` is how many of the estimated tokens a piece is expected to hold."""

    def __init__(self, text: str, tokens: int) -> None:
        self._text, self._tokens = text, tokens
        self._marks = _estimated_ends(text)
        self._reach = max(1.0, tokens / _real_for_one(text, self._marks))
        self._parts = _parts_of(tokens)

    def cuts(self) -> Iterator[int]:
        """Where each piece ends, in order."""
        start = 0
        while start < len(self._text):
            first = bisect_right(self._marks, start)
            ends = self._endings(start, first)
            begins = _begins([self._text[begin:end] for begin, end in pairwise((start, *ends))], self._tokens)
            cuts = [start + begin for begin in begins[1:]] or [ends[-1]]
            yield from cuts
            if cuts[0] < ends[-2]:
                self._reach = self._found(start, cuts)
            elif cuts[0] < ends[-1]:
                self._reach *= SHORTER
            elif bisect_right(self._marks, ends[-1]) - first > HEAD * self._reach:  # it ends near its reach
                self._reach *= LONGER
            start = cuts[-1]

    def _endings(self, start: int, first: int) -> list[int]:
        """Where the text is best cut for a piece of the reach, for its head, and within that."""
        ends, begin = list[int](), start
        for part in range(1, self._parts + 1):
            begin = self._ending(begin, first, HEAD * part / self._parts)
            ends.append(begin)
        ends[-1] = self._ending(start, first, HEAD)
        return [*ends, self._ending(start, first, 1.0)]

    def _ending(self, start: int, first: int, part: float) -> int:
        """Where the text from here is best cut before this part of the reach."""
        last = first + int(part * self._reach)
        if last >= len(self._marks):
            return len(self._text)
        return _best(self._text, start, max(start, self._marks[last]))

    def _found(self, start: int, cuts: Sequence[int]) -> float:
        """Estimated tokens in the longer of the last two pieces that were found: one may be short."""
        marks = [bisect_right(self._marks, cut) for cut in (start, *cuts)[-3:]]
        return max(1.0, *(last - first for first, last in pairwise(marks)))


def _best(text: str, start: int, end: int) -> int:
    """The best place to cut a text before `end`."""
    for part, endings in ENDINGS:
        low = end - int(part * (end - start))
        if (found := max(text.rfind(ending, low, end) + len(ending) for ending in endings)) > low:
            return found
    return end


def _fits(parts: Sequence[str], tokens: int) -> bool:
    """Whether all of them do, together."""
    return len(_begins(parts, tokens)) <= 1


def _parts_of(tokens: int) -> int:
    return max(1, min(MOST_PARTS, tokens // TOKENS_OF_A_PART))


def _begins(parts: Sequence[str], tokens: int) -> list[int]:
    """Where the pieces begin that the library makes of these parts, together: one if all of them fit. A piece
    ends where a part does, unless the part alone is too large, which costs a search."""
    found = _splitter(tokens).chunk_indices("".join(f"{part}{BORDER}" for part in parts))
    ends = list(accumulate(map(len, parts)))
    bordered = [end + number * len(BORDER) for number, end in enumerate(ends)]
    begins = []
    for at, _ in found:
        part = bisect_left(bordered, at)
        begins.append(max(at - part * len(BORDER), ends[part - 1] if part else 0))
    return begins


@lru_cache(maxsize=64)
def _splitter(tokens: int) -> TextSplitter:
    # Imported here: 18 MB of vocabularies that only processes using a model need.
    from semantic_text_splitter import TextSplitter

    return TextSplitter.from_tiktoken_model(MODEL, tokens)
