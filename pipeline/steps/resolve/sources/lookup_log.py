"""An entry of a document's lookup log: which source was asked, its result in a sentence, how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from pipeline.steps.resolve.fallback_urls import SOURCE as FETCHED
from pipeline.steps.resolve.sources.answer import Answer, Outcome
from pipeline.steps.resolve.sources.source import Source
from queuemgr import StepFailed
from queuemgr.extend.secrets import clean

PRINTED = "printed id"
"""What an inquiry was about that asked only for metadata."""

CONCLUSION = "resolve"
"""Instead of a source's name: the entry that ends a round of inquiries."""

_SENTENCES = {
    Outcome.NO_ADDRESS: "knows the paper but no address of its PDF",
    Outcome.NOT_KNOWN: "does not know the paper",
    Outcome.UNSURE: "gave an empty answer, as it does when busy",
}


@dataclass(frozen=True)
class Inquiry:
    """`seconds`: duration of the request, 0 if the answer was `cached`. For a failure: its `kind`, and
    `retry_after` in seconds. `path`: where a source redirected to."""

    source: str
    outcome: Outcome
    detail: str
    seconds: float = 0.0
    cached: bool = False
    kind: str = ""
    retry_after: float | None = None
    path: str = ""

    @classmethod
    def answered(cls, source: Source, answer: Answer, *, cached: bool = False) -> Self:
        count = len(answer.addresses)
        found = f"named {count} {'address' if count == 1 else 'addresses'}"
        sentence = _SENTENCES.get(answer.outcome, found)
        return cls(source.name, answer.outcome, sentence, cached=cached)

    @classmethod
    def failed(cls, source: Source, failure: StepFailed) -> Self:
        return cls(
            source.name, Outcome.FAILED, f"could not answer: {clean(failure.message)[:300]}",
            kind=failure.kind, retry_after=failure.retry_after,
        )  # fmt: skip

    @classmethod
    def moved(cls, source: Source, path: str) -> Self:
        return cls(source.name, Outcome.MOVED, f"has the record at {path}", path=path)

    @classmethod
    def concluded(cls, outcome: str, detail: str) -> dict[str, Any]:
        """The entry that ends a round."""
        return {"source": CONCLUSION, "outcome": outcome, "detail": clean(detail)}

    def to_json(self) -> dict[str, Any]:
        """Without empty values."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name in ("seconds", "cached") or value not in ("", None)
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        return cls(**{**stored, "outcome": Outcome(stored["outcome"])})


def current_round(lookups: Sequence[dict[str, Any]]) -> list[Inquiry]:
    """The inquiries of the current round: none if the last round was concluded.

    The same list also logs downloads, which are no inquiries, and those about what a paper prints.
    """
    inquiries = [
        entry for entry in lookups if entry.get("source") != FETCHED and entry.get("about") != PRINTED
    ]
    if not inquiries or inquiries[-1].get("source") == CONCLUSION:
        return []
    return [Inquiry.from_json(entry) for entry in inquiries]
