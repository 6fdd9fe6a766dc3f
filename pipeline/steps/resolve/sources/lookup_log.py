"""One line of a document's record of whom was asked about it: what came, in a sentence, and how fast."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

from pipeline.steps.resolve.fallback_urls import SOURCE as FETCHED
from pipeline.steps.resolve.sources.answer import Answer, Outcome
from pipeline.steps.resolve.sources.source import Source
from queuemgr import StepFailed
from queuemgr.extend.secrets import clean

CONCLUSION = "resolve"
"""In place of a source's name: the line that ends a round of inquiries."""

_SENTENCES = {
    Outcome.NO_ADDRESS: "knows the paper and names no place of its PDF",
    Outcome.NOT_KNOWN: "does not know the paper",
    Outcome.UNSURE: "gave an empty answer, as it does when busy",
}


@dataclass(frozen=True)
class Inquiry:
    """`seconds` the request took, 0 when the answer was `cached`. Of a failure: its `kind`, and the
    wait in seconds it asked for. `path`: where a source that `moved` its record has it now."""

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
        """The line that ends a round."""
        return {"source": CONCLUSION, "outcome": outcome, "detail": clean(detail)}

    def as_json(self) -> dict[str, Any]:
        """As the record keeps it: what is empty is left out."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name in ("seconds", "cached") or value not in ("", None)
        }

    @classmethod
    def of_json(cls, said: dict[str, Any]) -> Self:
        return cls(**{**said, "outcome": Outcome(said["outcome"])})


def this_round(record: list[dict[str, Any]]) -> list[Inquiry]:
    """The inquiries of the round under way: none when the last one was concluded.

    What came of fetching from the addresses stands in the same record, and is no inquiry.
    """
    ours = [said for said in record if said.get("source") != FETCHED]
    if not ours or ours[-1].get("source") == CONCLUSION:
        return []
    return [Inquiry.of_json(said) for said in ours]
