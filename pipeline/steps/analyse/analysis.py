"""An analysis as it is stored, with what was found out about the evidence of each claim. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from pipeline.steps.extract.extract import clean

LONGEST, MOST = 8000, 30
"""Characters of a text, and texts in a list. More is refused before it is cleaned, which takes time."""

KINDS = ("contributions", "methods", "data", "results", "limitations")
"""The lists of claims."""

Verdict = Literal["verified", "corrected", "not found", "too short", "no quote"]


def storable(value: object) -> object:
    """Remove NUL and lone surrogates, which models send and databases refuse."""
    if not isinstance(value, str):
        return value
    if len(value) > LONGEST:
        raise ValueError(f"longer than {LONGEST:,} characters")
    return clean(value).text


def bounded(value: object) -> object:
    if isinstance(value, list) and len(value) > MOST:
        raise ValueError(f"more than {MOST} entries")
    return value


Text = Annotated[
    str, BeforeValidator(storable), StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST)
]
Texts = Annotated[tuple[Text, ...], Field(max_length=MOST), BeforeValidator(bounded)]


class Evidence(BaseModel):
    """Where the paper says something: the quote, its page, and whether it stands there.

    `verdict`: `verified`; `corrected`, if it stands on another page than the model said (`said_page`; None if
    it said none), which `page` names; else why it is unverified, and `page` is what the model said.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    page: int | None = None
    quote: str = ""
    verdict: Verdict = "no quote"
    said_page: int | None = None

    @property
    def is_verified(self) -> bool:
        return self.verdict in ("verified", "corrected")


class Claim(Evidence):
    """What the paper states, by a model or in its own words."""

    text: Text


def with_evidence(value: object) -> object:
    """An earlier release stored texts alone."""
    return {"text": value} if isinstance(value, str) else value


Claims = Annotated[
    tuple[Annotated[Claim, BeforeValidator(with_evidence)], ...],
    Field(max_length=MOST),
    BeforeValidator(bounded),
]


class Analysis(BaseModel):
    """The result of a model and of the local analyser. Lists may be empty, texts may not.

    `extracted`: the fields of a person's own schema, with the evidence of each. `anomalies`: in words, what
    was wrong with the model's answer and left out.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    title: Text
    summary: Text
    keywords: Texts
    contributions: Claims = ()
    methods: Claims = ()
    data: Claims = ()
    results: Claims = ()
    limitations: Claims = ()
    extracted: dict[str, Any] = {}
    field_evidence: dict[str, Evidence] = {}
    anomalies: tuple[str, ...] = ()

    def claims(self) -> Iterator[tuple[str, tuple[Claim, ...]]]:
        """The lists of claims that are not empty, by kind."""
        for kind in KINDS:
            if found := getattr(self, kind):
                yield kind, found

    def evidence(self) -> Iterator[Evidence]:
        for _, claims in self.claims():
            yield from claims
        yield from self.field_evidence.values()


def claims_in(record: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Claim, ...]]]:
    """The lists of claims in a stored analysis, whatever else it holds."""
    for kind in KINDS:
        listed = record.get(kind)
        claims = map(_claim_or_none, listed[:MOST] if isinstance(listed, list) else [])
        if found := tuple(claim for claim in claims if claim is not None):
            yield kind, found


def extracted_in(record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields in a stored analysis, whatever else it holds."""
    found = record.get("extracted")
    return found if isinstance(found, dict) else {}


def field_evidence_in(record: Mapping[str, Any]) -> dict[str, Evidence]:
    found = record.get("field_evidence")
    valid: dict[str, Evidence] = {}
    for name, value in (found if isinstance(found, dict) else {}).items():
        with suppress(ValidationError):
            valid[name] = Evidence.model_validate(value)
    return valid


def _claim_or_none(value: object) -> Claim | None:
    try:
        return Claim.model_validate(with_evidence(value))
    except ValidationError:
        return None


def stored(analysis: Analysis) -> dict[str, Any]:
    """As JSON."""
    return analysis.model_dump(mode="json")
