"""The requests one analysis is made of: each booked before it goes out, and one of them to spare.

The spare one is for what asking again can mend, if it is asked otherwise: an answer cut off (with
twice the room), one off the schema (with what is wrong with it), a request the endpoint does not
take as it is written. It goes to whoever needs it first; a second need ends the analysis.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pipeline.steps.analyse.answers import ANALYSIS_SCHEMA, Analysis, BadAnalysis, parsed, plain
from pipeline.steps.analyse.prompts import Message, repair
from pipeline.steps.llm.client import DialectRefused, Model
from pipeline.steps.llm.endpoint import Dialect, known, remember
from pipeline.steps.llm.response import AnswerCutOff, PromptTooLong
from queuemgr import StepFailed

T = TypeVar("T")


class ComeAgain(Exception):
    """This cannot be done with what is reserved and known now; it can be by who knows `learnt`.

    `learnt` is plain data for the execution's context; `reason` is a sentence for an operator.
    """

    def __init__(self, reason: str, learnt: Mapping[str, Any]) -> None:
        super().__init__(reason)
        self.reason, self.learnt = reason, dict(learnt)


@dataclass(frozen=True)
class Wanted(Generic[T]):
    """An answer to be had: what to ask, how long it may be in tokens, and how to read it.

    `schema` is None for plain text; `cut_at` are the lengths it was cut off at so far.
    """

    messages: Sequence[Message]
    tokens: int
    read: Callable[[str], T]
    schema: Mapping[str, Any] | None = None
    cut_at: tuple[int, ...] = ()

    def mended(self, fault: Exception) -> Wanted[T]:
        """How to ask once more, after what asking otherwise can mend."""
        if isinstance(fault, AnswerCutOff):
            return replace(self, tokens=2 * self.tokens, cut_at=(*self.cut_at, self.tokens))
        if isinstance(fault, BadAnalysis):
            return replace(self, messages=[*self.messages, *repair(fault.answer, fault.reasons)])
        return self  # the model's endpoint has a new dialect by now

    def failed(self, fault: Exception) -> StepFailed:
        """What it means when there is no more asking. A cut-off is final: the next lease would pay
        in full to be cut off at the same length."""
        if isinstance(fault, BadAnalysis):
            said = f"The model's answer does not fit the schema: {fault.reasons}."
            return StepFailed("bad_answer", said)
        lengths = " and at ".join(map(str, (*self.cut_at, self.tokens)))
        return StepFailed(
            "cut_off",
            f"The model's answer was cut off at {lengths} tokens; raise SLUICE_LLM_MAX_TOKENS, or "
            "use a model that thinks less before it answers.",
        )


MENDABLE = (AnswerCutOff, BadAnalysis, DialectRefused)


class Asking:
    """Asks one model about one paper. `refused` is the text of a prompt refused for its length."""

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
        self._booked, self._spare = 0, True
        if dialect is not None and known(model.endpoint) == Dialect():
            remember(model.endpoint, dialect)

    @property
    def model_name(self) -> str:
        return self._model.endpoint.model

    async def analysis(self, messages: Sequence[Message]) -> Analysis:
        """The analysis a model gives. Raises `StepFailed` and `ComeAgain`."""
        return await self._answered(Wanted(messages, self.max_tokens, parsed, ANALYSIS_SCHEMA))

    async def notes(self, messages: Sequence[Message], tokens: int) -> str:
        """Notes of at most so many tokens, or twice that. Raises as `analysis` does."""
        return await self._answered(Wanted(messages, tokens, plain))

    async def _answered(self, wanted: Wanted[T]) -> T:
        try:
            return await self._asked(wanted)
        except MENDABLE as fault:
            if not self._spare:
                raise self._final(wanted, fault) from None
            self._spare, again = False, wanted.mended(fault)
        try:
            return await self._asked(again)
        except MENDABLE as fault:
            raise self._final(again, fault) from None

    async def _asked(self, wanted: Wanted[T]) -> T:
        self._booked += 1
        # In a thread: it writes to a database, which must not be done on an event loop.
        await asyncio.to_thread(self._before_request, self._booked)
        try:
            answer = await self._model.ask(wanted.messages, wanted.tokens, wanted.schema)
        except PromptTooLong:
            self.refused = wanted.messages[-1]["content"]
            raise
        return wanted.read(answer.text)

    def _final(self, wanted: Wanted[Any], fault: Exception) -> Exception:
        if not isinstance(fault, DialectRefused):
            return wanted.failed(fault)
        learnt = known(self._model.endpoint).plain()
        return ComeAgain(f"{fault.message} It is asked otherwise.", {"llm_dialect": learnt})
