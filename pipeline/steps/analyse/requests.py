"""The requests of one analysis: each charged before it is sent, and one of them spare.

The spare request is for failures that a changed request can fix: an answer cut off (with twice the
tokens), one that violates the schema (with its errors), a request in a dialect the endpoint does not
accept. The first such failure uses it; a second one ends the analysis.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from pipeline.steps.analyse.answers import Answer, BadAnalysis, answer_form, parsed, plain, salvaged
from pipeline.steps.analyse.custom_schema import CustomSchema
from pipeline.steps.analyse.prompts import Message, repair
from pipeline.steps.llm.client import DialectRefused, Model
from pipeline.steps.llm.endpoint import Dialect, dialect_for, save_dialect
from pipeline.steps.llm.response import AnswerTruncated, PromptTooLong
from queuemgr import StepFailed

T = TypeVar("T")


class Reschedule(Exception):
    """The analysis needs another lease: with more requests, or with what is known now.

    `context`: JSON data for the execution's context; `reason`: a sentence for the operator.
    """

    def __init__(self, reason: str, context: Mapping[str, Any]) -> None:
        super().__init__(reason)
        self.reason, self.context = reason, dict(context)


@dataclass(frozen=True)
class WantedAnswer(Generic[T]):
    """A request for an answer: the messages, the maximum tokens, and how to parse it.

    `schema` is None for plain text; `cut_at`: the lengths at which it was cut off so far. `salvage` reads
    what is right in the last answer that may be asked for.
    """

    messages: Sequence[Message]
    tokens: int
    read: Callable[[str], T]
    schema: Mapping[str, Any] | None = None
    cut_at: tuple[int, ...] = ()
    salvage: Callable[[str], T] | None = None

    def retried(self, fault: Exception) -> WantedAnswer[T]:
        """The changed request to send after this failure."""
        if isinstance(fault, AnswerTruncated):
            return replace(self, tokens=2 * self.tokens, cut_at=(*self.cut_at, self.tokens))
        if isinstance(fault, BadAnalysis):
            return replace(self, messages=[*self.messages, *repair(fault.answer, fault.reasons)])
        return self  # the endpoint has a new dialect by now

    def failed(self, fault: Exception) -> StepFailed:
        """The final failure when no retry is left. A truncated answer is final: the next lease would
        pay in full for one of the same length."""
        if isinstance(fault, BadAnalysis):
            message = f"The model's answer does not fit the schema: {fault.reasons}."
            return StepFailed("bad_answer", message)
        lengths = " and at ".join(map(str, (*self.cut_at, self.tokens)))
        return StepFailed(
            "truncated",
            f"The model's answer was truncated at {lengths} tokens; raise SLUICE_LLM_MAX_TOKENS, or "
            "use a model with shorter reasoning.",
        )


RETRYABLE = (AnswerTruncated, BadAnalysis, DialectRefused)


class PaperRequests:
    """The requests to one model about one paper. `refused`: the prompt that was refused for length."""

    def __init__(
        self,
        model: Model,
        before_request: Callable[[int], object],
        max_tokens: int,
        dialect: Dialect | None = None,
    ) -> None:
        self.max_tokens = max_tokens
        self.refused = ""
        self._model, self._before_request = model, before_request
        self._charged, self._spare = 0, True
        if dialect is not None and dialect_for(model.endpoint) == Dialect():
            save_dialect(model.endpoint, dialect)

    @property
    def model_name(self) -> str:
        return self._model.endpoint.model

    async def analysis(self, messages: Sequence[Message], schema: CustomSchema | None = None) -> Answer:
        """What the model says of the paper. Raises `StepFailed` and `Reschedule`."""
        read, salvage = partial(parsed, schema=schema), partial(salvaged, schema=schema)
        form = answer_form(schema)
        return await self._answer(WantedAnswer(messages, self.max_tokens, read, form, salvage=salvage))

    async def notes(self, messages: Sequence[Message], tokens: int) -> str:
        """Notes of at most `tokens`, or twice that. Raises as `analysis` does."""
        return await self._answer(WantedAnswer(messages, tokens, plain))

    async def _answer(self, wanted: WantedAnswer[T]) -> T:
        try:
            return await self._send(wanted)
        except RETRYABLE as fault:
            if not self._spare:
                return await self._last(wanted, fault)
            self._spare, again = False, wanted.retried(fault)
        try:
            return await self._send(again)
        except RETRYABLE as fault:
            return await self._last(again, fault)

    async def _last(self, wanted: WantedAnswer[T], fault: Exception) -> T:
        """What is right in an answer when there is no request left to have it mended."""
        if isinstance(fault, BadAnalysis) and wanted.salvage is not None:
            try:
                return await asyncio.to_thread(wanted.salvage, fault.answer)
            except BadAnalysis as worse:
                fault = worse
        raise self._final(wanted, fault) from None

    async def _send(self, wanted: WantedAnswer[T]) -> T:
        self._charged += 1
        # In a thread: it writes to the database, which would block the event loop.
        await asyncio.to_thread(self._before_request, self._charged)
        try:
            answer = await self._model.ask(wanted.messages, wanted.tokens, wanted.schema)
        except PromptTooLong:
            self.refused = wanted.messages[-1]["content"]
            raise
        return await asyncio.to_thread(wanted.read, answer.text)

    def _final(self, wanted: WantedAnswer[Any], fault: Exception) -> Exception:
        if not isinstance(fault, DialectRefused):
            return wanted.failed(fault)
        dialect = dialect_for(self._model.endpoint).to_json()
        return Reschedule(f"{fault.message} Trying again in another dialect.", {"llm_dialect": dialect})
