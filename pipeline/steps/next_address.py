"""Where else a PDF may be had when one address fails: which addresses are left, and what was tried.

Pure. `other_urls` and `lookups` are the columns of a document: lists of objects, written by others
too, so that what cannot be understood in them is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

PATIENCE = 2
"""Failures of a passing kind at one address before another that is known is tried."""

SOURCE = "fetch"
WELL = ("kept", "unchanged", "page")
"""Outcomes that are no failure: the PDF is stored, is as it was, or is named by a page."""

SHORT = 120
"""Characters of each earlier failure that the last one's message names."""


@dataclass(frozen=True)
class Address:
    """A URL, who named it, and whether a page is likely there rather than the PDF."""

    url: str
    source: str = ""
    landing: bool = False

    def as_json(self) -> dict[str, Any]:
        return {"url": self.url, "source": self.source, "landing": self.landing}


def left(
    other_urls: Iterable[Any], lookups: Iterable[Any], current: str, round_: str
) -> list[Address]:
    """The addresses still to be tried, in order: those nobody tried yet, else, when a person let it
    all be tried again, those that failed in earlier rounds.

    A round is whatever names the tries since a person last said so: no clocks are compared.
    """
    untried = _addresses(other_urls)
    tried = [line for line in lookups if _is_ours(line)]
    lately = {current, *(line["url"] for line in tried if line.get("round") == round_)}
    chosen = untried or _addresses(line for line in tried if line.get("failed"))
    return list({a.url: a for a in chosen if a.url not in lately}.values())


def line(
    address: Address, outcome: str, message: str, now: datetime, round_: str = ""
) -> dict[str, Any]:
    """A line for `lookups`: `outcome` is the error kind, or one of WELL."""
    return {
        **address.as_json(),
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
            str(record.get("named_by", record.get("source", ""))),
            bool(record.get("landing")),
        )
        for record in records
        if isinstance(record, dict) and isinstance(record.get("url"), str)
    ]


def _is_ours(line: Any) -> bool:
    ours = isinstance(line, dict) and line.get("source") == SOURCE
    return ours and all(isinstance(line.get(name), str) for name in ("url", "outcome"))
