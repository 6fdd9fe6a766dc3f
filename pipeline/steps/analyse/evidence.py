"""The claims of an answer, with what was found out about their quotes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.steps.analyse.analysis import KINDS, Analysis
from pipeline.steps.analyse.answers import Answer, StatedClaim
from pipeline.steps.analyse.quotes import CORRECTED, VERIFIED


def quotes_of(answer: Answer) -> list[tuple[str, int | None]]:
    """The quote of each claim, in order, and the page that the model says."""
    return [(claim.quote, claim.page) for kind in KINDS for claim in getattr(answer, kind)]


def with_places(answer: Answer, places: Sequence[Sequence[Any]]) -> Analysis:
    """The analysis; `places`: verdict and page of each quote, in the order of `quotes_of`."""
    rest = iter(places)
    lists = {kind: [_claim(claim, *next(rest)) for claim in getattr(answer, kind)] for kind in KINDS}
    return Analysis.model_validate({**answer.model_dump(exclude=set(KINDS)), **lists})


def _claim(stated: StatedClaim, verdict: str, page: int | None) -> dict[str, Any]:
    """An unverified claim keeps the page that the model said."""
    found = verdict in (VERIFIED, CORRECTED)
    said = {"said_page": stated.page} if verdict == CORRECTED else {}
    return {
        "text": stated.text, "quote": stated.quote, "verdict": verdict,
        "page": page if found else stated.page, **said,
    }  # fmt: skip
