"""Analyse a paper: by a language model if one is configured, else by selecting its own sentences.

`Analysed.method` names the method, and the report shows it. Nothing of the paper is logged, nor
quoted in an error.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from pipeline.steps.analyse.analysis import Analysis
from pipeline.steps.analyse.answers import Answer, reasons_of
from pipeline.steps.analyse.chunk_sizes import (
    MIN_CHUNK_TOKENS,
    MIN_NOTE_TOKENS,
    chunk_tokens_for,
    known_chunks,
    requests_for,
)
from pipeline.steps.analyse.chunks import Plan
from pipeline.steps.analyse.custom_schema import CustomSchema
from pipeline.steps.analyse.evidence import quotes_of, with_places
from pipeline.steps.analyse.prompts import (
    OVERHEAD_TOKENS,
    PROMPT_VERSION,
    Message,
    merge_notes,
    one_chunk,
    prompt_hash,
    whole_paper,
)
from pipeline.steps.analyse.requests import PaperRequests, Reschedule
from pipeline.steps.llm.client import abortable, connected
from pipeline.steps.llm.endpoint import Dialect, Endpoint, dialect_from_json
from pipeline.steps.llm.usage import Usage
from pipeline.steps.pdf.sandbox import ResourceLimits, output_limit
from pipeline.steps.pdf.text_sandbox import read_in_child
from queuemgr import AbortSignal, StepFailed
from queuemgr.steptools.lanes import Lane
from queuemgr.steptools.ordered_map import run_with_queue

__all__ = [
    "EXTRACTIVE",
    "PROMPT_VERSION",
    "AnalyseOptions",
    "Analysed",
    "Analysis",
    "KnownLimits",
    "Reschedule",
    "analyse",
    "chunk_tokens",
]

DEFAULT_LANE = Lane("io", 64, 256)
"""The widest lane for io; a worker has one of its own."""

EXTRACTIVE = "extractive"


NO_TEXT = StepFailed("no_text", "There is no text to analyse.")

TEXT_LIMITS = ResourceLimits(120.0, 120.0, 2 << 30, output_limit(5_000_000))
"""For whoever states none."""


@dataclass(frozen=True)
class Analysed:
    """`method` is `model:<name>` or `extractive`; of the latter version and hash of the prompts are ""."""

    analysis: Analysis
    method: str
    prompt_version: str = ""
    prompt_hash: str = ""


@dataclass(frozen=True)
class KnownLimits:
    """What is known before the model is asked about this paper: the number of chunks, the tokens a
    chunk may have after a refusal for length, and the dialect of the endpoint."""

    chunks: int = 1
    chunk_tokens: int | None = None
    dialect: Dialect | None = None

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> KnownLimits:
        """From an execution's context, with which `Reschedule.context` was merged."""
        return cls(
            known_chunks(context),
            context.get("llm_chunk_tokens"),
            dialect_from_json(context.get("llm_dialect")),
        )

    @property
    def requests(self) -> int:
        """Requests that were reserved."""
        return requests_for(self.chunks)


def charge_nothing(_number: int) -> None:
    """For callers that charge no requests."""


def save_nothing(_digest: str, _note: str) -> None:
    """For callers that store no notes."""


@dataclass(frozen=True)
class AnalyseOptions:
    """Without an `endpoint` the local analyser selects `sentences` of the paper.

    The model's context has `context_tokens`, prompt and answer together; an answer has up to
    `max_tokens`. A longer paper is sent in at most `max_chunks` chunks, `chunks_inflight` at once and
    within the bounds of `lane`.
    `before_request` is called in a thread with 1, 2, … before each request: it charges the request,
    and may refuse it by raising. `usage` counts requests and tokens, also those of failures. `schema`: what
    else is extracted.

    `limits`: of the child processes in which the paper's text is read.
    `notes`: those an earlier attempt paid for, by `digest_of` their request; they are not requested
    again. `save_note` is called in a thread with each new one.
    """

    endpoint: Endpoint | None = None
    context_tokens: int = 32_768
    max_tokens: int = 3_000
    max_chunks: int = 32
    chunks_inflight: int = 4
    lane: Lane = DEFAULT_LANE
    sentences: int = 6
    schema: CustomSchema | None = None
    known: KnownLimits = KnownLimits()
    before_request: Callable[[int], object] = charge_nothing
    usage: Usage = field(default_factory=Usage)
    limits: ResourceLimits = TEXT_LIMITS
    notes: Mapping[str, str] = field(default_factory=dict)
    save_note: Callable[[str, str], object] = save_nothing

    @property
    def schema_text(self) -> str:
        """The schema as it is sent; "" without one."""
        return self.schema.text if self.schema else ""

    def lane_for(self, chunks: int) -> Lane:
        """The lane for this many chunks."""
        return self.lane.at_most(min(self.chunks_inflight, chunks))


def analyse(text: str, title_hint: str, options: AnalyseOptions, signal: AbortSignal) -> Analysed:
    """Analyse a paper given as text, with or without `[PAGE n]` lines, and look for each claim's quote in it.

    Raises `StepFailed` (`no_text`, `too_large` for more chunks than allowed, or what `Model.ask`
    raises), `Reschedule` when more requests must be reserved or smaller ones sent, and `Aborted`.
    """
    if options.endpoint is None:
        return Analysed(analyse_by_extraction(text, title_hint, options, signal), EXTRACTIVE)
    tokens = chunk_tokens(options)
    read = read_in_child("chunks_of_paper", options.limits, signal, text=text, chunk_tokens=tokens)
    if not read["chunks"]:
        raise NO_TEXT
    plan = check_plan(Plan(read["body"], tokens, tuple(read["chunks"])), options)
    found = asyncio.run(
        abortable(analyse_by_model(plan, title_hint, options, options.endpoint, signal), signal)
    )
    analysis = verified(found, plan.body, options, signal)
    method, used = f"model:{options.endpoint.model}", prompt_hash(options.schema_text)
    return Analysed(analysis, method, PROMPT_VERSION, used)


def verified(answer: Answer, body: str, options: AnalyseOptions, signal: AbortSignal) -> Analysis:
    """The model's answer, with what was found out about each quote in what the model read of the paper."""
    quotes = quotes_of(answer)
    asked = any(quote for quote, _ in quotes)
    found = (
        read_in_child("places", options.limits, signal, text=body, quotes=quotes)
        if asked
        else [("no quote", None)] * len(quotes)
    )
    return with_places(answer, found)


def analyse_by_extraction(
    text: str, title_hint: str, options: AnalyseOptions, signal: AbortSignal
) -> Analysis:
    """The paper's own sentences. Raises `no_text` if it has none that are usable."""
    found = read_in_child(
        "sentences", options.limits, signal, text=text, title_hint=title_hint, count=options.sentences
    )
    if found is None:
        raise NO_TEXT
    try:
        return Analysis.model_validate(found)
    except ValidationError as error:
        raise StepFailed("no_text", f"The text gives no analysis ({reasons_of(error)}).") from None


def chunk_tokens(options: AnalyseOptions) -> int:
    """Tokens of paper per request. Raises `bad_request` if the settings leave almost none."""
    schema_tokens = options.schema.tokens if options.schema else 0
    tokens = chunk_tokens_for(options.context_tokens, options.max_tokens, schema_tokens)
    if tokens < MIN_CHUNK_TOKENS:
        raise StepFailed(
            "bad_request",
            f"A context of {options.context_tokens} tokens with answers of {options.max_tokens} "
            f"leaves room for {max(0, tokens)} tokens of paper; raise SLUICE_LLM_CONTEXT_TOKENS (up to "
            "the model's own limit) or lower SLUICE_LLM_MAX_TOKENS.",
        )
    return min(tokens, options.known.chunk_tokens or tokens)


def check_plan(plan: Plan, options: AnalyseOptions) -> Plan:
    """The plan, if it is allowed and its requests are reserved."""
    chunks = len(plan.chunks)
    if chunks > options.max_chunks or not plan.can_be_merged:
        raise StepFailed(
            "too_large",
            f"The text takes {chunks} requests of {plan.chunk_tokens} tokens; at most "
            f"{options.max_chunks} are allowed, and {plan.chunk_tokens // MIN_NOTE_TOKENS} can be merged: "
            "raise SLUICE_LLM_MAX_CHUNKS or SLUICE_LLM_CONTEXT_TOKENS.",
        )
    if plan.requests > options.known.requests:
        raise Reschedule(
            f"the text has {chunks} chunks, which take up to {plan.requests} requests", {"llm_chunks": chunks}
        )
    return plan


async def analyse_by_model(
    plan: Plan, title_hint: str, options: AnalyseOptions, endpoint: Endpoint, signal: AbortSignal
) -> Answer:
    """One request for a paper that fits; else one a chunk, and one that merges the notes."""
    lane = options.lane_for(len(plan.chunks))
    async with connected(endpoint, options.usage, lane.concurrency) as model:
        requests = PaperRequests(model, options.before_request, options.max_tokens, options.known.dialect)
        try:
            if len(plan.chunks) == 1:
                asked = whole_paper(plan.chunks[0], title_hint, options.schema_text)
            else:
                notes = await notes_for_chunks(plan, requests, lane, options, signal)
                asked = merge_notes(notes, title_hint, options.schema_text)
            return await requests.analysis(asked, options.schema)
        except StepFailed as refusal:
            if refusal.kind == "too_long":
                raise await asyncio.to_thread(
                    after_too_long, plan, requests, refusal, options, signal
                ) from None
            raise


async def notes_for_chunks(
    plan: Plan, requests: PaperRequests, lane: Lane, options: AnalyseOptions, signal: AbortSignal
) -> list[str]:
    """Notes on each chunk, in order. The first failure stops the others, since all notes are needed;
    those made by then are kept for the next attempt."""
    count, tokens = len(plan.chunks), min(requests.max_tokens, plan.note_tokens)

    async def note(numbered: tuple[int, str]) -> str:
        number, chunk = numbered
        messages = one_chunk(chunk, number, count, tokens, options.schema_text)
        digest = digest_of(messages, tokens, requests.model_name)
        if digest in options.notes:
            return options.notes[digest]
        made = await requests.notes(messages, tokens)
        # In a thread: it writes to a storage, which may be slow.
        await asyncio.to_thread(options.save_note, digest, made)
        return made

    notes = await run_with_queue(lane, enumerate(plan.chunks, 1), note, signal=signal)
    return [note for note in notes if note is not None]


def digest_of(messages: Sequence[Message], tokens: int, model: str) -> str:
    """The key of notes: a hash of the whole request, including the chunk's text, the model and the
    version of the prompts."""
    request = [PROMPT_VERSION, model, tokens, [dict(message) for message in messages]]
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def after_too_long(
    plan: Plan, requests: PaperRequests, refusal: StepFailed, options: AnalyseOptions, signal: AbortSignal
) -> Exception:
    """After a prompt was refused for its length: the first time, reschedule with chunks of half the
    tokens we counted in it; after that, fail with the numbers."""
    ceiling = 2 * plan.chunk_tokens + OVERHEAD_TOKENS
    counted = read_in_child("tokens", options.limits, signal, text=requests.refused, ceiling=ceiling)
    message = (
        f"{refusal.message} By our count the text sent had at most {counted} tokens, of "
        f"{options.context_tokens} allowed by SLUICE_LLM_CONTEXT_TOKENS"
    )
    half = min(counted, plan.chunk_tokens) // 2
    if options.known.chunk_tokens is not None or half < MIN_CHUNK_TOKENS:
        return StepFailed("too_long", f"{message}; lower that to what the model takes.")
    chunks = len(read_in_child("chunks", options.limits, signal, body=plan.body, chunk_tokens=half))
    return Reschedule(
        f"{message}; trying again with chunks of {half}.", {"llm_chunk_tokens": half, "llm_chunks": chunks}
    )
