"""Split a paper into chunks that fit a model's context, at headings, sentences and lines. Pure.

Tokens are counted with the o200k vocabulary, which ships inside the library. Other models count
differently, so chunks are smaller by `MARGIN`; if an endpoint still refuses one, it is asked once
more with chunks of half the size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.steps.analyse.marked_text import MARK, MARK_TOKENS, marked_pieces
from pipeline.steps.analyse.prompts import OVERHEAD_TOKENS
from pipeline.steps.analyse.split_by_tokens import cuts_of

MARGIN = 1.15
"""How many times our count another model may count before a prompt is refused: Llama 3 and Qwen
count up to about a tenth more on English papers. Older vocabularies count much more on other
scripts, for which there is the retry with smaller chunks."""

MIN_CHUNK_TOKENS = 256
"""Tokens of a chunk below which a model can say nothing useful about it."""

MIN_NOTE_TOKENS = 100
"""Tokens of notes on a chunk below which they are useless."""

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


def requests_for(chunks: int) -> int:
    """Requests to reserve: one a chunk, one to merge the notes on several, and a spare one for a
    retry, which is given back if it is not used."""
    return chunks + (chunks > 1) + 1


def note_tokens_for(chunk_tokens: int, chunks: int) -> int:
    """Tokens that the notes on one of so many chunks may have."""
    return max(MIN_NOTE_TOKENS, chunk_tokens // chunks)


def known_chunks(context: Mapping[str, Any]) -> int:
    """The number of chunks an execution's context states; 1 if they were not counted yet."""
    return max(1, int(context.get("llm_chunks", 1)))


def chunk_tokens_for(context_tokens: int, max_tokens: int, schema_tokens: int = 0) -> int:
    """Tokens of paper that fit in a request, by our count: the model's context minus twice the answer
    (for a retry at double length) minus the instructions. May be below `MIN_CHUNK_TOKENS`."""
    return int((context_tokens - 2 * max_tokens - OVERHEAD_TOKENS - schema_tokens) / MARGIN)


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
