"""A source's answer about a paper: addresses of its PDF, and its metadata."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from enum import IntEnum, StrEnum
from typing import Any, Self

MOST_ADDRESSES = 100
"""Of one answer, which is a row: several times as many as are ever tried."""


class Rank(IntEnum):
    """How likely an address returns the PDF to anyone; the lowest rank is tried first."""

    OPEN_PDF = 0
    """The PDF itself; open access, according to the source."""
    PDF = 1
    """The PDF itself, perhaps for subscribers only."""
    OPEN_PAGE = 2
    """The page of an open copy; it should link to the PDF."""
    PAGE = 3
    """The publisher's page, perhaps behind a paywall."""
    CHECKER = 4
    """Meant for plagiarism checkers, and mostly closed to others."""


class Outcome(StrEnum):
    """The result of asking a source."""

    FOUND = "found"
    NO_ADDRESS = "no address"
    """It knows the paper, but no address of its PDF."""
    NOT_KNOWN = "not known"
    """It answered that it has no such paper."""
    UNSURE = "no answer yet"
    """An inconclusive answer: to be asked again later."""
    MOVED = "moved"
    """It redirects to another path, which takes another request."""
    FAILED = "failed"
    NOT_ASKED = "not asked"


@dataclass(frozen=True)
class Address:
    """Where a PDF may be, according to `source`."""

    url: str
    source: str
    rank: Rank = Rank.OPEN_PDF

    @property
    def landing(self) -> bool:
        """Probably an HTML page with a `citation_pdf_url`."""
        return self.rank in (Rank.OPEN_PAGE, Rank.PAGE)


@dataclass(frozen=True)
class Paper:
    """Metadata of a paper from one source; empty where it knows nothing.

    `licence` and `open_access` are in the source's own words; `arxiv_id` includes the version if known.
    """

    title: str = ""
    authors: tuple[str, ...] = ()
    year: int | None = None
    licence: str = ""
    open_access: str = ""
    doi: str = ""
    arxiv_id: str = ""
    venue: str = ""
    volume: str = ""
    issue: str = ""
    page: str = ""
    publisher: str = ""
    abstract: str = ""


@dataclass(frozen=True)
class Answer:
    """A source's answer."""

    outcome: Outcome
    addresses: tuple[Address, ...] = ()
    paper: Paper = field(default_factory=Paper)

    @classmethod
    def of(cls, addresses: tuple[Address, ...], paper: Paper) -> Self:
        """The answer of a source that knows the paper; of very many addresses the most likely."""
        likely = tuple(sorted(addresses, key=lambda address: address.rank)[:MOST_ADDRESSES])
        kept = addresses if len(addresses) <= MOST_ADDRESSES else likely
        return cls(Outcome.FOUND if kept else Outcome.NO_ADDRESS, kept, paper)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self | None:
        """The answer `to_json` stored; None for a form this version does not read."""
        try:
            addresses = tuple(Address(a["url"], a["source"], Rank(a["rank"])) for a in stored["addresses"])
            facts = {f.name: stored["paper"].get(f.name, f.default) for f in fields(Paper)}
            paper = Paper(**{**facts, "authors": tuple(stored["paper"]["authors"])})
            return cls(Outcome(stored["outcome"]), addresses, paper)
        except (KeyError, TypeError, ValueError):
            return None
