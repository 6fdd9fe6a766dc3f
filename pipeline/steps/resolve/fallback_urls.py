"""Other URLs of a PDF when one fails: which are left to try, and a log of those tried.

Pure. `other_urls` and `lookups` are columns of a document: lists of objects that other steps write
too, so entries of another form are skipped. `lookups` are shown to people and contain no query of a
URL; `other_urls` are requested later and contain it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeline.steps.http.shown import shown
from queuemgr.extend.secrets import clean

FAILURES_PER_URL = 2
"""Retryable failures at one URL before another is tried."""

SOURCE = "fetch"
SUCCESSES = ("kept", "unchanged", "page")
"""Outcomes that are no failure: the PDF is stored, has not changed, or is named by a page."""

FAILURE_CHARACTERS = 120
"""Characters of each earlier failure that the last one's message quotes."""


@dataclass(frozen=True)
class CandidateUrl:
    """A URL, the source that named it, and whether it is probably a page rather than the PDF.

    `failed_round`: the round of attempts in which it failed; empty if it has not.
    """

    url: str
    source: str = ""
    landing: bool = False
    failed_round: str = ""

    def to_json(self) -> dict[str, Any]:
        stored = {"url": self.url, "source": self.source, "landing": self.landing}
        return {**stored, "failed_round": self.failed_round} if self.failed_round else stored


def remaining(other_urls: Iterable[Any], current: str, round_: str) -> list[CandidateUrl]:
    """The URLs left to try, in order: those that have not failed yet; if there are none and a person
    had the document retried, those that failed in earlier rounds.

    A round is named by when a person last had it retried; rounds are compared for equality only.
    """
    known = _candidates(other_urls)
    used = {current, *(candidate.url for candidate in known if candidate.failed_round == round_)}
    chosen = [candidate for candidate in known if not candidate.failed_round] or known
    return list({c.url: c for c in chosen if c.url not in used}.values())


def without(other_urls: Iterable[Any], url: str) -> list[CandidateUrl]:
    """All but this one, failed or not."""
    return [candidate for candidate in _candidates(other_urls) if candidate.url != url]


def untried(other_urls: Iterable[Any]) -> list[CandidateUrl]:
    """Those that have not failed yet."""
    return [candidate for candidate in _candidates(other_urls) if not candidate.failed_round]


def log_entry(
    candidate: CandidateUrl, outcome: str, message: str, now: datetime, round_: str = ""
) -> dict[str, Any]:
    """An entry for `lookups`; `outcome`: the error kind, or one of SUCCESSES."""
    return {
        "url": shown(candidate.url),
        "landing": candidate.landing,
        "named_by": candidate.source,
        "source": SOURCE,
        "outcome": outcome,
        "message": clean(message)[:500],
        "failed": outcome not in SUCCESSES,
        "at": now.isoformat(timespec="seconds"),
        "round": round_,
    }


def failures_in_round(lookups: Iterable[Any], round_: str) -> str:
    """The failures of this round, shortened, for the message of the last one; empty for none."""
    failures = [
        f"{entry['outcome']}: {str(entry.get('message'))[:FAILURE_CHARACTERS]}"
        for entry in lookups
        if _is_log_entry(entry) and entry.get("failed") and entry.get("round") == round_
    ]
    return "; ".join(failures)


def _candidates(records: Iterable[Any]) -> list[CandidateUrl]:
    return [
        CandidateUrl(
            record["url"],
            str(record.get("source", "")),
            bool(record.get("landing")),
            str(record.get("failed_round", "")),
        )
        for record in records
        if isinstance(record, dict) and isinstance(record.get("url"), str)
    ]


def _is_log_entry(entry: Any) -> bool:
    is_fetch = isinstance(entry, dict) and entry.get("source") == SOURCE
    return is_fetch and isinstance(entry.get("outcome"), str)
