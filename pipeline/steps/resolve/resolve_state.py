"""Progress of looking a paper up over several leases: what was asked so far, and what was answered."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from pipeline.steps.resolve.sources.answer import Answer, Outcome
from pipeline.steps.resolve.sources.lookup_log import Inquiry, current_round
from pipeline.steps.resolve.sources.source import Source

_ANSWERED = frozenset({Outcome.FOUND, Outcome.NO_ADDRESS, Outcome.NOT_KNOWN, Outcome.UNSURE})


@dataclass(frozen=True)
class CachedAnswers:
    """Stored answers about one paper by source, and the sources whose answer is still fresh."""

    answers: Mapping[str, Answer]
    fresh: Collection[str]


@dataclass(frozen=True)
class ResolveState:
    """The inquiries of the current round, and the answers by source."""

    inquiries: tuple[Inquiry, ...] = ()
    answers: Mapping[str, Answer] = field(default_factory=dict)

    @classmethod
    def from_lookups(
        cls, lookups: Sequence[Any], cached: CachedAnswers, unavailable: Sequence[Inquiry] = ()
    ) -> Self:
        """The state that a document's `lookups` record; a new round begins with `unavailable`.

        An inquiry whose answer is no longer stored is left out, so it is made again.
        """
        state = cls()
        for inquiry in current_round(lookups) or unavailable:
            answer = cached.answers.get(inquiry.source) if inquiry.outcome in _ANSWERED else None
            if answer or inquiry.outcome not in _ANSWERED:
                state = state.with_inquiry(inquiry, answer)
        return state

    def to_lookups(self) -> list[dict[str, Any]]:
        return [inquiry.to_json() for inquiry in self.inquiries]

    def inquiries_at(self, source: Source) -> list[Inquiry]:
        return [inquiry for inquiry in self.inquiries if inquiry.source == source.name]

    def with_inquiry(self, inquiry: Inquiry, answer: Answer | None = None) -> Self:
        answers = {**self.answers, inquiry.source: answer} if answer else self.answers
        return type(self)((*self.inquiries, inquiry), answers)
