"""Where else a PDF may be had when one address fails: which addresses are left, and what was tried.

Pure. `other_urls` and `lookups` are the columns of a document: lists of objects, written by others
too, so that what cannot be understood in them is passed over. `lookups` are for people and hold no
query of a URL; `other_urls`, which are for the next try, hold them whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeline.steps.http.safe_addresses import shown

PATIENCE = 2
"""Failures of a passing kind at one address before another that is known is tried."""

SOURCE = "fetch"
WELL = ("kept", "unchanged", "page")
"""Outcomes that are no failure: the PDF is stored, is as it was, or is named by a page."""

SHORT = 120
"""Characters of each earlier failure that the last one's message names."""


@dataclass(frozen=True)
class Address:
    """A URL, who named it, and whether a page is likely there rather than the PDF.

    `tried` is the round in which it failed, empty when it did not yet.
    """

    url: str
    source: str = ""
    landing: bool = False
    tried: str = ""

    def as_json(self) -> dict[str, Any]:
        said = {"url": self.url, "source": self.source, "landing": self.landing}
        return {**said, "tried": self.tried} if self.tried else said


def left(other_urls: Iterable[Any], current: str, round_: str) -> list[Address]:
    """The addresses still to be tried, in order: those nobody tried yet, else, when a person let it
    all be tried again, those that failed in earlier rounds.

    A round is whatever names the tries since a person last said so: no clocks are compared.
    """
    known = _addresses(other_urls)
    lately = {current, *(address.url for address in known if address.tried == round_)}
    chosen = [address for address in known if not address.tried] or known
    return list({a.url: a for a in chosen if a.url not in lately}.values())


def without(other_urls: Iterable[Any], url: str) -> list[Address]:
    """All but this one, whether tried or not."""
    return [address for address in _addresses(other_urls) if address.url != url]


def untried(other_urls: Iterable[Any]) -> list[Address]:
    """Those that did not fail yet."""
    return [address for address in _addresses(other_urls) if not address.tried]


def line(
    address: Address, outcome: str, message: str, now: datetime, round_: str = ""
) -> dict[str, Any]:
    """A line for `lookups`: `outcome` is the error kind, or one of WELL."""
    return {
        "url": shown(address.url),
        "landing": address.landing,
        "named_by": address.source,
        "source": SOURCE,
        "outcome": outcome,
        "message": message[:500],
        "failed": outcome not in WELL,
        "at": now.isoformat(timespec="seconds"),
        "round": round_,
    }


def failed_in(lookups: Iterable[Any], round_: str) -> str:
    """What failed in this round, briefly, for the message of the last failure; empty for nothing."""
    said = [
        f"{line['outcome']}: {str(line.get('message'))[:SHORT]}"
        for line in lookups
        if _is_ours(line) and line.get("failed") and line.get("round") == round_
    ]
    return "; ".join(said)


def _addresses(records: Iterable[Any]) -> list[Address]:
    return [
        Address(
            record["url"],
            str(record.get("source", "")),
            bool(record.get("landing")),
            str(record.get("tried", "")),
        )
        for record in records
        if isinstance(record, dict) and isinstance(record.get("url"), str)
    ]


def _is_ours(line: Any) -> bool:
    ours = isinstance(line, dict) and line.get("source") == SOURCE
    return ours and isinstance(line.get("outcome"), str)
