"""The columns of the table of papers: metadata, what an analysis says, and the fields of a schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Case, F, When
from django.db.models.fields.json import KT, KeyTextTransform, KeyTransform

from pipeline.models import Document
from pipeline.steps.analyse.analysis import claims_in, extracted_in
from pipeline.steps.report.claims_report import HEADINGS, value_in_words
from pipeline.steps.report.plain_text import one_line

Cell = str | int | float | None

LONGEST_CELL = 20_000
"""Characters of a cell; a spreadsheet takes 32,767."""


@dataclass(frozen=True)
class Column:
    """`sort`: by what the database sorts, None if by nothing; `text`: what a filter looks in."""

    name: str
    label: str
    group: str
    value: Callable[[Document], Cell]
    sort: Any = None
    text: Any = None
    number: bool = False
    loads: tuple[str, ...] = field(default=())


def _of_column(name: str, label: str, *, number: bool = False) -> Column:
    def value(document: Document) -> Cell:
        found = getattr(document, name)
        return found if number else words(found)

    return Column(name, label, "Paper", value, F(name), None if number else F(name), number, (name,))


def _of_list(name: str, label: str) -> Column:
    return Column(name, label, "Paper", lambda each: words(", ".join(map(str, getattr(each, name) or ()))),
                  text=F(name), loads=(name,))  # fmt: skip


def words(value: object) -> str:
    return one_line(str(value or ""))[:LONGEST_CELL]


def _claims(kind: str) -> Column:
    def value(document: Document) -> str:
        listed = dict(claims_in(document.analysis)).get(kind, ())
        return words(" · ".join(_claim(claim.text, claim.is_verified) for claim in listed))

    return Column(kind, HEADINGS[kind], "Analysis", value, text=KeyTextTransform(kind, "analysis"),
                  loads=("analysis",))  # fmt: skip


def _claim(text: str, verified: bool) -> str:
    return text if verified else f"{text} [unverified]"


def _summary(document: Document) -> str:
    return words(document.analysis.get("summary"))


def _unverified(document: Document) -> int:
    return sum(not claim.is_verified for _, claims in claims_in(document.analysis) for claim in claims)


def _usd(document: Document) -> float | None:
    """What is known of its cost; None where that is nothing."""
    return document.micro_usd / 1_000_000 if document.priced_requests else None


PLAIN: Mapping[str, Column] = {
    column.name: column
    for column in (
        _of_column("key", "Key"),
        _of_column("title", "Title"),
        _of_list("authors", "Authors"),
        _of_column("year", "Year", number=True),
        _of_column("venue", "Venue"),
        _of_column("doi", "DOI"),
        _of_column("arxiv_id", "arXiv"),
        _of_column("abstract", "Abstract"),
        _of_list("keywords", "Keywords"),
        _of_column("licence", "Licence"),
        _of_column("open_access", "Open access"),
        _of_column("pages", "Pages", number=True),
        _of_column("references", "References", number=True),
        _of_column("method", "Analysed by"),
        Column(
            "cost",
            "Cost, USD",
            "Paper",
            _usd,
            Case(When(priced_requests__gt=0, then=F("micro_usd"))),
            number=True,
            loads=("micro_usd", "priced_requests"),
        ),
        _of_column("problem", "Problem"),
        Column("summary", "Summary", "Analysis", _summary, text=KT("analysis__summary"), loads=("analysis",)),
        *map(_claims, HEADINGS),
        Column("unverified", "Unverified claims", "Analysis", _unverified, number=True, loads=("analysis",)),
    )
}

CHOSEN_FIRST = ("title", "authors", "year", "venue", "methods", "results")
"""Columns of the table before any are chosen."""

PREFIX = "field:"


def field_column(name: str) -> Column:
    """A field of a schema."""
    extracted = KeyTransform("extracted", "analysis")

    def value(document: Document) -> Cell:
        found = extracted_in(document.analysis).get(name)
        if isinstance(found, int | float) and not isinstance(found, bool):
            return found
        return value_in_words(found)[:LONGEST_CELL]

    # SQLite takes no quotation mark in a path.
    usable = '"' not in name and "\\" not in name
    return Column(
        PREFIX + name, one_line(name), "Fields", value,
        sort=KeyTransform(name, extracted) if usable else None,
        text=KeyTextTransform(name, extracted) if usable else None, loads=("analysis",),
    )  # fmt: skip
