"""Cutting a paper into parts a model can take, by tokens, at headings, lines and sentences. Pure.

Tokens are counted by the o200k vocabulary, which ships inside the library. Other models count
otherwise, so the room is made smaller by `MARGIN`; an endpoint that still refuses is asked once
more, with parts of half the size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pipeline.steps.analyse.prompts import OVERHEAD_TOKENS

if TYPE_CHECKING:
    from semantic_text_splitter import TextSplitter

MODEL = "gpt-4o"
"""Names the vocabulary, o200k: the widest there is, and the nearest to those of newer models."""

MARGIN = 1.15
"""How much more than ours other models may count before a prompt is refused: Llama 3 and Qwen
count up to about a tenth more on English papers; older vocabularies much more on other scripts,
which the one adapted try is for."""

LEAST_ROOM = 256
"""Tokens of a part below which nothing sensible can be said of it."""

LEAST_NOTES = 100
"""Tokens of notes on a part below which they say nothing."""

HEADING = re.compile(
    r"^(?=(?:\d{1,2}(?:\.\d{1,2}){0,3}\.?|[IVX]{1,4}\.)[ \t]+[^\W\d_][^.!?]{2,70}$)", re.MULTILINE
)
"""Before a numbered section heading alone on its line."""


@dataclass(frozen=True)
class Plan:
    """How a paper is to be put to a model: its parts, each of at most `room` tokens by our count."""

    body: str
    room: int
    parts: tuple[str, ...]

    @property
    def requests(self) -> int:
        return requests_for(len(self.parts))

    @property
    def note_tokens(self) -> int:
        """What the notes on one part may take, so that all of them fit where a part does."""
        return max(LEAST_NOTES, self.room // len(self.parts))

    @property
    def can_be_merged(self) -> bool:
        return self.note_tokens * len(self.parts) <= max(self.room, LEAST_NOTES)


def requests_for(parts: int) -> int:
    """Requests that must be reserved: one a part, one to merge several, and one to spare, which is
    given back when no answer had to be asked for twice."""
    return parts + (parts > 1) + 1


def known_parts(given: Mapping[str, Any]) -> int:
    """In how many parts an execution goes, by what it knows; 1 when nobody has looked yet."""
    return max(1, int(given.get("llm_parts", 1)))


def room_for(context_tokens: int, max_tokens: int) -> int:
    """Tokens of paper a request may hold, by our count: what the model takes less the answer, which
    may be asked for again at double length, less the instructions. Below `LEAST_ROOM`: too few."""
    return int((context_tokens - 2 * max_tokens - OVERHEAD_TOKENS) / MARGIN)


def planned(body: str, room: int) -> Plan:
    """The plan for a paper without its references."""
    return Plan(body, room, tuple(split(HEADING.sub("\n", body), room)) or (body,))


def split(text: str, tokens: int) -> Sequence[str]:
    """Pieces of at most so many tokens, cut at the widest gap that serves: blank lines (they stand
    before headings), line ends, sentences, words."""
    return list(_splitter(tokens).chunks(text))


@lru_cache(maxsize=8)
def _splitter(tokens: int) -> TextSplitter:
    # Imported here: 18 MB of vocabularies that only a process which asks a model needs.
    from semantic_text_splitter import TextSplitter

    return TextSplitter.from_tiktoken_model(MODEL, tokens)


def tokens_in(text: str, ceiling: int) -> int:
    """Tokens of a text known to have at most `ceiling`, rounded up by a 32nd at most."""
    low, high = 0, ceiling
    while high - low > max(16, high // 32):
        middle = (low + high) // 2
        low, high = (low, middle) if len(split(text, middle)) <= 1 else (middle, high)
    return high
