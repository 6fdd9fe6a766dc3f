"""The claims of an analysis in words: their headings, and what is known of their evidence. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pipeline.steps.analyse.analysis import Analysis, Claim, Evidence
from pipeline.steps.report.plain_text import one_line

HEADINGS: Mapping[str, str] = {
    "contributions": "Contributions",
    "methods": "Methods",
    "data": "Data",
    "results": "Results",
    "limitations": "Limitations",
}

WHY_UNVERIFIED: Mapping[str, str] = {
    "not found": "its quote does not stand in the text",
    "too short": "its quote is too short to tell",
    "no quote": "no quote was given",
}


class ShownClaim(NamedTuple):
    """A claim in a report: its text, its quote ("" if that says the same), where it stands, and whether it
    was found there."""

    text: str
    quote: str
    where: str
    verified: bool
    page: int | None


def shown_claims(lists: Iterable[tuple[str, tuple[Claim, ...]]]) -> Iterator[tuple[str, list[ShownClaim]]]:
    """Lists of claims by their headings."""
    for kind, claims in lists:
        yield HEADINGS[kind], [shown_claim(claim.text, claim) for claim in claims]


def shown_claim(text: str, evidence: Evidence) -> ShownClaim:
    text, quote = one_line(text), one_line(evidence.quote)
    page = evidence.page if evidence.is_verified else None
    return ShownClaim(text, "" if quote == text else quote, where(evidence), evidence.is_verified, page)


class ShownField(NamedTuple):
    """A field of a person's own schema: its value in words, and the evidence as of a claim."""

    name: str
    value: str
    evidence: ShownClaim


def shown_fields(extracted: Mapping[str, Any], evidence: Mapping[str, Evidence]) -> list[ShownField]:
    return [
        ShownField(one_line(name), value_in_words(value), shown_claim("", evidence.get(name, Evidence())))
        for name, value in extracted.items()
    ]


def value_in_words(value: object) -> str:
    """A text as it is, a list of plain values as one, anything else as JSON."""
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        return ", ".join(map(value_in_words, value))
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def where(evidence: Evidence) -> str:
    """`p. 3`, `p. 3 (the model said p. 5)`, or why it is unverified."""
    if not evidence.is_verified:
        return f"unverified: {WHY_UNVERIFIED[evidence.verdict]}"
    page = f"p. {evidence.page}" if evidence.page else "in the text"
    if evidence.verdict != "corrected":
        return page
    said = f"p. {evidence.said_page}" if evidence.said_page else "no page"
    return f"{page} (the model said {said})"


def unverified_in_words(analysis: Analysis) -> str:
    """`2 of 14 claims and fields`; "" if all were found."""
    every = list(analysis.evidence())
    missing = sum(not each.is_verified for each in every)
    and_fields = " and fields" if analysis.field_evidence else ""
    return f"{missing} of {len(every)} claims{and_fields}" if missing else ""


def verified_in_words(analysis: Analysis) -> str:
    """`12 of 14 quotes found, 1 on another page than the model said`; "" without claims."""
    every = list(analysis.evidence())
    if not every:
        return ""
    found = sum(each.is_verified for each in every)
    moved = sum(each.verdict == "corrected" and each.said_page is not None for each in every)
    words = f"{found} of {len(every)} quotes found in the text"
    return f"{words}, {moved} on another page than the model said" if moved else words
