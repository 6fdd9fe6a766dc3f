"""Split a paper into chunks that fit a model's context, at headings, sentences and lines. Pure.

How large they are is in `chunk_sizes`. If an endpoint still refuses one, it is asked once more with chunks of
half the size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.steps.analyse.chunk_sizes import MIN_NOTE_TOKENS, note_tokens_for, requests_for
from pipeline.steps.analyse.marked_text import MARK, MARK_TOKENS, marked_pieces
from pipeline.steps.analyse.split_by_tokens import cuts_of

LONGEST_WORD = 300
"""Characters without a blank that are sent to a model as they are."""

LONGEST_GAP = 60
"""Blanks and line ends in a row that are sent to a model as they are."""

ENDLESS_WORD = re.compile(rf"\S{{{LONGEST_WORD}}}(?=\S)")
ENDLESS_GAP = re.compile(rf"(\s{{{LONGEST_GAP}}})\s+")

HEADING = re.compile(
    r"^(?=(?:\d{1,2}(?:\.\d{1,2}){0,3}\.?|[IVX]{1,4}\.)[ \t]+[^\W\d_][^.!?]{2,70}$)", re.MULTILINE
)
"""Matches before a numbered section heading on a line of its own."""


@dataclass(frozen=True)
class Plan:
    """How a paper is sent to a model: its chunks, each of at most `chunk_tokens` by our count."""

    body: str
    chunk_tokens: int
    chunks: tuple[str, ...]

    @property
    def requests(self) -> int:
        return requests_for(len(self.chunks))

    @property
    def note_tokens(self) -> int:
        """Tokens that the notes on one chunk may have, so that all notes together fit in a chunk."""
        return note_tokens_for(self.chunk_tokens, len(self.chunks))

    @property
    def can_be_merged(self) -> bool:
        return self.note_tokens * len(self.chunks) <= max(self.chunk_tokens, MIN_NOTE_TOKENS)


def plan_chunks(body: str, chunk_tokens: int) -> Plan:
    """The plan for a paper without its references. If its text has marks of pages, each chunk begins with
    that of its page."""
    text = HEADING.sub("\n", without_endless_runs(body))
    marked = MARK.search(text) is not None
    cuts = cuts_of(text, max(1, chunk_tokens - MARK_TOKENS) if marked else chunk_tokens)
    return Plan(body, chunk_tokens, tuple(marked_pieces(text, cuts)) or (body,))


def without_endless_runs(text: str) -> str:
    """With a blank after every `LONGEST_WORD` characters that have none, and no gap over `LONGEST_GAP`:
    a tokenizer takes the square of a word's length, and fails for a million blanks."""
    return ENDLESS_WORD.sub(r"\g<0> ", ENDLESS_GAP.sub(r"\1", text))
