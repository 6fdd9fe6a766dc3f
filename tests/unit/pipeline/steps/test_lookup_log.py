"""The next source follows from the lookup log, which other steps write to as well."""

from __future__ import annotations

from datetime import UTC, datetime

from pipeline.steps.resolve.fallback_urls import CandidateUrl, log_entry
from pipeline.steps.resolve.sources.answer import Outcome
from pipeline.steps.resolve.sources.lookup_log import Inquiry, current_round

ASKED = Inquiry("crossref", Outcome.NO_ADDRESS, "names no place")
FETCHED = log_entry(CandidateUrl("https://a.org/x"), "not_found", "gone", datetime(2026, 11, 28, tzinfo=UTC))


def test_the_results_of_fetching_are_not_lookups() -> None:
    ended = Inquiry.concluded("found", "1 to try")
    assert current_round([ASKED.to_json(), ended, FETCHED]) == []
    assert current_round([FETCHED]) == []
    assert current_round([ASKED.to_json(), FETCHED]) == [ASKED]
