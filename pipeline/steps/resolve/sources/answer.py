"""What a source told of a paper: addresses of its PDF, and facts about it. Plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from enum import IntEnum, StrEnum
from typing import Any, Self


class Rank(IntEnum):
    """How likely an address gives the PDF to anyone who asks: the lower is tried first."""

    OPEN_PDF = 0
    """The PDF itself; the source says that all may read it."""
    PDF = 1
    """The PDF itself, perhaps for subscribers only."""
    OPEN_PAGE = 2
    """The page of a copy all may read; it should link to the PDF."""
    PAGE = 3
    """The publisher's page, perhaps behind a paywall."""
    CHECKER = 4
    """Given to a service that checks for plagiarism, and mostly closed to others."""


class Outcome(StrEnum):
    """How an inquiry at a source ended."""

    FOUND = "found"
    NO_ADDRESS = "no address"
    """It knows the paper, and names nothing to fetch."""
    NOT_KNOWN = "not known"
    """It answered, and has no such paper."""
    UNSURE = "no answer yet"
    """An answer that says nothing: to be asked again later."""
    MOVED = "moved"
    """It has the record elsewhere, to be asked for in a request of its own."""
    FAILED = "failed"
    NOT_ASKED = "not asked"


@dataclass(frozen=True)
class Address:
    """Where a PDF may be. `source` is the name of who said so."""

    url: str
    source: str
    rank: Rank = Rank.OPEN_PDF

    @property
    def landing(self) -> bool:
        """Likely a page in HTML, whose `citation_pdf_url` is wanted."""
        return self.rank in (Rank.OPEN_PAGE, Rank.PAGE)


@dataclass(frozen=True)
class Paper:
    """Facts about a paper, as one source states them; what it does not know is empty.

    `licence` and `open_access` are in the source's own words; `arxiv_id` has its version, if known.
    """

    title: str = ""
    authors: tuple[str, ...] = ()
    year: int | None = None
    licence: str = ""
    open_access: str = ""
    doi: str = ""
    arxiv_id: str = ""


@dataclass(frozen=True)
class Answer:
    """All a source told in one answer."""

    outcome: Outcome
    addresses: tuple[Address, ...] = ()
    paper: Paper = field(default_factory=Paper)

    @classmethod
    def of(cls, addresses: tuple[Address, ...], paper: Paper) -> Self:
        """The answer of a source that knows the paper."""
        return cls(Outcome.FOUND if addresses else Outcome.NO_ADDRESS, addresses, paper)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, said: dict[str, Any]) -> Self | None:
        """What `as_json` told; None for a form this version does not read."""
        try:
            addresses = (Address(a["url"], a["source"], Rank(a["rank"])) for a in said["addresses"])
            facts = {f.name: said["paper"][f.name] for f in fields(Paper)}
            paper = Paper(**{**facts, "authors": tuple(facts["authors"])})
            return cls(Outcome(said["outcome"]), tuple(addresses), paper)
        except (KeyError, TypeError, ValueError):
            return None
