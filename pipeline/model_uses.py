"""What an analysis and an OCR are expected to use of the meters `tokens` and `usd`, before they start.

Only numbers that an earlier step left in the context are looked at: rules of steps are called for every
execution. What a step really used is charged when it ends, whatever was expected.
"""

from __future__ import annotations

from pipeline.config import PipelineSettings, pipeline_settings
from pipeline.model_prices import MICRO, ModelPrice
from pipeline.ocr_config import is_remote, pages_for_ocr
from pipeline.steps.analyse.chunk_sizes import chunk_tokens_for, known_chunks, note_tokens_for
from pipeline.steps.llm.usage import Usage
from queuemgr import Context

MODEL_LIMIT = "llm:chat"
"""The limit of the model's endpoint."""

PROMPT_TOKENS = 700
"""Of the instructions, the title, the schema and the chat format of one request about a paper."""

ANSWER_TOKENS = 1_500
"""Of an analysis: a summary, keywords, and claims with their quotes, as JSON."""

PAGE_PROMPT_TOKENS = 1_800
"""Of the picture of a page, 1,288 pixels high, in pieces of 28 by 28, and its instructions."""

PAGE_TEXT_TOKENS = 1_000
"""Of the text of a page: those of our papers have 880 on average, and the front matter some 50."""

FITS_AFTER_ROUNDING = (10, 11)
"""The queue rounds estimates up by a tenth at most: this part of an allowance is never rounded above it."""


def analysis_uses(context: Context) -> dict[str, float]:
    """Of all requests about one paper, without a spare one; nothing without a model."""
    config = pipeline_settings()
    if not config.llm_base_url:
        return {}
    chunks = known_chunks(context)
    schema = int(context.get("llm_schema_tokens") or 0)
    prompt = PROMPT_TOKENS + schema
    chunk_tokens = chunk_tokens_for(config.llm_context_tokens, config.llm_max_tokens, schema)
    text = int(context.get("llm_tokens") or chunks * chunk_tokens)
    answer = min(ANSWER_TOKENS + schema // 2, config.llm_max_tokens)
    usage = Usage(prompt_tokens=text + chunks * prompt, completion_tokens=answer)
    if chunks > 1:
        # Of the tokens that notes may have, the prompt asks for a third in words: they take about half.
        notes = chunks * min(config.llm_max_tokens, note_tokens_for(chunk_tokens, chunks)) // 2
        usage.prompt_tokens += notes + prompt
        usage.completion_tokens += notes
    return _expected(config, config.model_prices.get(config.llm_model), usage, config.tokens_per_minute)


def ocr_uses(context: Context) -> dict[str, float]:
    """Of one request for each page without text; nothing for a local engine."""
    config = pipeline_settings()
    if not is_remote(config):
        return {}
    pages = pages_for_ocr(context)
    usage = Usage(
        prompt_tokens=pages * PAGE_PROMPT_TOKENS, completion_tokens=pages * PAGE_TEXT_TOKENS, images=pages
    )
    return _expected(config, config.model_prices.get(config.ocr_model), usage, config.ocr_tokens_per_minute)


def _expected(
    config: PipelineSettings, price: ModelPrice | None, usage: Usage, per_minute: int
) -> dict[str, float]:
    """A paper that is expected to use more than an allowance ever holds takes all of it, or it could never
    start; what it uses beyond is charged, and later papers wait for it."""
    part, of = FITS_AFTER_ROUNDING
    tokens = usage.prompt_tokens + usage.completion_tokens
    uses: dict[str, float] = {"tokens": min(tokens, per_minute * part // of or tokens)}
    if price is not None:
        usd = price.micro_usd(usage) / MICRO
        uses["usd"] = min(usd, config.daily_usd * part / of or usd)
    return uses
