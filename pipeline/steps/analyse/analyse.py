"""What a paper says: by a language model where one is configured, else by picking its sentences.

The two are never confused: `Analysed.method` says which it was, and the report repeats it.
Nothing of the paper is logged, nor quoted in an error.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from pipeline.steps.analyse.answers import Analysis, reasons_of
from pipeline.steps.analyse.chunks import (
    LEAST_NOTES,
    LEAST_ROOM,
    Plan,
    known_parts,
    planned,
    requests_for,
    room_for,
    tokens_in,
)
from pipeline.steps.analyse.extractive import picked
from pipeline.steps.analyse.prompts import (
    OVERHEAD_TOKENS,
    PROMPT_VERSION,
    Message,
    merged,
    one_part,
    whole_paper,
)
from pipeline.steps.analyse.requests import Asking, ComeAgain
from pipeline.steps.extract.references import before_references
from pipeline.steps.llm.client import Tally, abortable, connected
from pipeline.steps.llm.endpoint import Dialect, Endpoint, dialect_of
from queuemgr import AbortSignal, StepFailed
from queuemgr.steptools.lanes import Lane
from queuemgr.steptools.ordered_map import run_with_queue

__all__ = [
    "EXTRACTIVE",
    "PROMPT_VERSION",
    "AnalyseOptions",
    "Analysed",
    "Analysis",
    "ComeAgain",
    "Learnt",
    "analyse",
    "parts_in",
]

EXTRACTIVE = "extractive"


@dataclass(frozen=True)
class Analysed:
    """`method` is `model:<name>` or `extractive`; `prompt_version` is "" for the latter."""

    analysis: Analysis
    method: str
    prompt_version: str = ""


@dataclass(frozen=True)
class Learnt:
    """What is known of this paper at this endpoint before it is asked: in how many parts it goes,
    how many tokens a part may have after a refusal, and how requests are to be written."""

    parts: int = 1
    room: int | None = None
    dialect: Dialect | None = None

    @classmethod
    def of(cls, given: dict[str, Any]) -> Learnt:
        """Out of what the execution knows, in which `ComeAgain.learnt` was merged."""
        return cls(
            known_parts(given),
            given.get("llm_room"),
            dialect_of(given.get("llm_dialect")),
        )

    @property
    def requests(self) -> int:
        """Requests to reserve for it."""
        return requests_for(self.parts)


def nothing(_number: int) -> None:
    """For callers that book no requests."""


def unkept(_digest: str, _note: str) -> None:
    """For callers that keep no notes."""


@dataclass(frozen=True)
class AnalyseOptions:
    """Without an `endpoint` the local analyser does it, in `sentences` of the paper.

    The model takes `context_tokens`, question and answer together; `max_tokens` may come back. A
    longer paper goes in at most `max_parts` parts, `parts_inflight` at once. `before_request` is
    called with 1, 2, … before each request goes out, in a thread: it books the request, and may
    refuse it by raising. `tally` counts what was asked and used, whatever comes of it.

    `notes` are those an earlier attempt paid for, by `digest_of` what was asked; no part is asked
    that is among them. `keep_note` is called with each new one as it comes, in a thread.
    """

    endpoint: Endpoint | None = None
    context_tokens: int = 32_768
    max_tokens: int = 2_000
    max_parts: int = 32
    parts_inflight: int = 4
    sentences: int = 6
    learnt: Learnt = Learnt()
    before_request: Callable[[int], object] = nothing
    tally: Tally = field(default_factory=Tally)
    notes: Mapping[str, str] = field(default_factory=dict)
    keep_note: Callable[[str, str], object] = unkept


def analyse(text: str, title_hint: str, options: AnalyseOptions, signal: AbortSignal) -> Analysed:
    """Analyse a paper given as text, with or without `[PAGE n]` lines.

    Raises `StepFailed` (`no_text`, `too_large` for more parts than allowed, or what `llm.chat`
    raises), `ComeAgain` when more requests must be reserved or fewer tokens sent, and `Aborted`.
    """
    body = before_references(text)
    if not body.strip():
        raise StepFailed("no_text", "There is no text to analyse.")
    signal.raise_if_aborted()
    if options.endpoint is None:
        return Analysed(by_extraction(body, title_hint, options.sentences), EXTRACTIVE)
    plan = affordable(planned(body, room(options)), options)
    found = asyncio.run(
        abortable(by_model(plan, title_hint, options, options.endpoint, signal), signal)
    )
    return Analysed(found, f"model:{options.endpoint.model}", PROMPT_VERSION)


def parts_in(text: str, options: AnalyseOptions) -> int:
    """In how many parts a paper will go to the model; what admission must know beforehand."""
    return len(planned(before_references(text), room(options)).parts)


def by_extraction(body: str, title_hint: str, sentences: int) -> Analysis:
    """The paper's own sentences. Raises `no_text` when it has none worth the name."""
    try:
        return Analysis.model_validate(picked(body, title_hint, sentences))
    except ValidationError as error:
        raise StepFailed("no_text", f"The text gives no analysis ({reasons_of(error)}).") from None


def room(options: AnalyseOptions) -> int:
    """Tokens of paper a request may hold. Raises `bad_request` when settings leave next to none."""
    found = room_for(options.context_tokens, options.max_tokens)
    if found < LEAST_ROOM:
        raise StepFailed(
            "bad_request",
            f"A context of {options.context_tokens} tokens with answers of {options.max_tokens} "
            f"leaves room for {max(0, found)} tokens of paper; raise SLUICE_LLM_CONTEXT_TOKENS (the "
            "model's own figure) or lower SLUICE_LLM_MAX_TOKENS.",
        )
    return min(found, options.learnt.room or found)


def affordable(plan: Plan, options: AnalyseOptions) -> Plan:
    """The plan, if it is allowed and reserved for."""
    parts = len(plan.parts)
    if parts > options.max_parts or not plan.can_be_merged:
        raise StepFailed(
            "too_large",
            f"The text takes {parts} requests of {plan.room} tokens; at most {options.max_parts} "
            f"are allowed, and {plan.room // LEAST_NOTES} can be summed up: raise SLUICE_LLM_MAX_PARTS or "
            "SLUICE_LLM_CONTEXT_TOKENS.",
        )
    if plan.requests > options.learnt.requests:
        raise ComeAgain(
            f"it goes in {parts} parts, which take up to {plan.requests} requests",
            {"llm_parts": parts},
        )
    return plan


async def by_model(
    plan: Plan, title_hint: str, options: AnalyseOptions, endpoint: Endpoint, signal: AbortSignal
) -> Analysis:
    """One request for a paper that fits; else one a part, and one that makes their notes one."""
    inflight = min(options.parts_inflight, len(plan.parts))
    async with connected(endpoint, options.tally, inflight) as model:
        asking = Asking(model, options.before_request, options.max_tokens, options.learnt.dialect)
        try:
            if len(plan.parts) == 1:
                return await asking.analysis(whole_paper(plan.parts[0], title_hint))
            notes = await notes_on(plan, asking, options, signal)
            return await asking.analysis(merged(notes, title_hint))
        except StepFailed as refusal:
            if refusal.kind == "too_long":
                raise smaller(plan, asking, refusal, options) from None
            raise


async def notes_on(
    plan: Plan, asking: Asking, options: AnalyseOptions, signal: AbortSignal
) -> list[str]:
    """What each part says, in order. The first failure stops the rest: without it nothing can be
    summed up; the notes there are by then are kept for the next attempt."""
    count, tokens = len(plan.parts), min(asking.max_tokens, plan.note_tokens)

    async def note(numbered: tuple[int, str]) -> str:
        number, part = numbered
        messages = one_part(part, number, count, tokens)
        digest = digest_of(messages, tokens, asking.model_name)
        if digest in options.notes:
            return options.notes[digest]
        made = await asking.notes(messages, tokens)
        # In a thread: it writes to a file, which may be far away.
        await asyncio.to_thread(options.keep_note, digest, made)
        return made

    lane = Lane("llm_parts", min(options.parts_inflight, count), count)
    notes = await run_with_queue(lane, enumerate(plan.parts, 1), note, signal=signal)
    return [note for note in notes if note is not None]


def digest_of(messages: Sequence[Message], tokens: int, model: str) -> str:
    """What notes are kept under: the whole request, the part's text in it, the model that answers,
    and the version of the prompts. Notes on anything else are not taken for it."""
    asked = [PROMPT_VERSION, model, tokens, [dict(message) for message in messages]]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def smaller(plan: Plan, asking: Asking, refusal: StepFailed, options: AnalyseOptions) -> Exception:
    """What follows a prompt refused for its length: once, parts of half as many tokens as we
    counted in it; then the end, with the numbers."""
    counted = tokens_in(asking.refused, 2 * plan.room + OVERHEAD_TOKENS)
    said = (
        f"{refusal.message} By our count the text sent had at most {counted} tokens, of "
        f"{options.context_tokens} allowed by SLUICE_LLM_CONTEXT_TOKENS"
    )
    half = min(counted, plan.room) // 2
    if options.learnt.room is not None or half < LEAST_ROOM:
        return StepFailed("too_long", f"{said}; lower that to what the model takes.")
    parts = len(planned(plan.body, half).parts)
    return ComeAgain(
        f"{said}; once more in parts of {half}.", {"llm_room": half, "llm_parts": parts}
    )
