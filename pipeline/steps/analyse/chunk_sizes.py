"""How many tokens the chunks of a paper may have, and how many requests they take. Pure, and apart from what
splits papers, since every process reads settings and flows.

Tokens are counted with the o200k vocabulary, which ships inside the library. Other models count
differently, so chunks are smaller by `MARGIN`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.steps.analyse.prompts import OVERHEAD_TOKENS

MARGIN = 1.15
"""How many times our count another model may count before a prompt is refused: Llama 3 and Qwen
count up to about a tenth more on English papers. Older vocabularies count much more on other
scripts, for which there is the retry with smaller chunks."""

MIN_CHUNK_TOKENS = 256
"""Tokens of a chunk below which a model can say nothing useful about it."""

MIN_NOTE_TOKENS = 100
"""Tokens of notes on a chunk below which they are useless."""


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
