"""The claims of an answer, with what was found out about their quotes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.steps.analyse.analysis import KINDS, Analysis
from pipeline.steps.analyse.answers import Answer, StatedClaim, StatedEvidence
from pipeline.steps.analyse.quotes import CORRECTED, VERIFIED


def quotes_of(answer: Answer) -> list[tuple[str, int | None]]:
    """The quote of each claim and field, in order, and the page that the model says."""
    claims = [(claim.quote, claim.page) for kind in KINDS for claim in getattr(answer, kind)]
    return claims + [(stated.quote, stated.page) for stated in answer.field_evidence.values()]


def with_places(answer: Answer, places: Sequence[Sequence[Any]]) -> Analysis:
    """The analysis; `places`: verdict and page of each quote, in the order of `quotes_of`."""
    rest = iter(places)
    lists = {kind: [_claim(claim, *next(rest)) for claim in getattr(answer, kind)] for kind in KINDS}
    fields = {name: _evidence(stated, *next(rest)) for name, stated in answer.field_evidence.items()}
    known = answer.model_dump(exclude={*KINDS, "field_evidence"})
    return Analysis.model_validate({**known, **lists, "field_evidence": fields})


def _claim(stated: StatedClaim, verdict: str, page: int | None) -> dict[str, Any]:
    return {"text": stated.text, **_evidence(stated, verdict, page)}


def _evidence(stated: StatedEvidence, verdict: str, page: int | None) -> dict[str, Any]:
    """What is unverified keeps the page that the model said."""
    found = verdict in (VERIFIED, CORRECTED)
    said = {"said_page": stated.page} if verdict == CORRECTED else {}
    return {"quote": stated.quote, "verdict": verdict, "page": page if found else stated.page, **said}
