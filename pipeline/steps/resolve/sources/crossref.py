"""Crossref: what publishers deposited about a DOI: metadata, and links mostly for subscribers.

REST API of 2025 (api.crossref.org, documentation at crossref.org): `GET /works/{doi}`; `mailto` gives
access to the polite pool with higher limits. Aliased DOIs are answered with a redirect.
"""

from __future__ import annotations

from typing import Any

from pipeline.steps.identify import Identifier
from pipeline.steps.resolve.sources import json_fields
from pipeline.steps.resolve.sources.answer import Address, Answer, Paper, Rank
from pipeline.steps.resolve.sources.source import ResolveOptions, Source, escaped


def _read(body: bytes, identifier: Identifier) -> Answer:
    record = json_fields.record(json_fields.record_of(body, "Crossref").get("message"), "Crossref")
    free = "creativecommons.org" in _licence(record)
    links = [_address(link, free) for link in json_fields.mappings(record.get("link"))]
    page = json_fields.mapping(json_fields.mapping(record.get("resource")).get("primary")).get("URL")
    pages = [Address(url, CROSSREF.name, Rank.PAGE) for url in [json_fields.link(page)] if url]
    return Answer.of((*filter(None, links), *pages), _paper(record))


def _address(link: dict[str, Any], free: bool) -> Address | None:
    url = json_fields.link(link.get("URL"))
    if not url or link.get("content-type") != "application/pdf":
        return None
    if link.get("intended-application") == "similarity-checking":
        return Address(url, CROSSREF.name, Rank.CHECKER)
    return Address(url, CROSSREF.name, Rank.OPEN_PDF if free else Rank.PDF)


def _paper(record: dict[str, Any]) -> Paper:
    people = json_fields.mappings(record.get("author"))
    return Paper(
        title=json_fields.title(json_fields.first(record.get("title"))),
        authors=json_fields.names([_name(who) for who in people]),
        year=_year(record),
        licence=_licence(record),
        doi=json_fields.doi(record.get("DOI")),
        venue=json_fields.title(json_fields.first(record.get("container-title"))),
        volume=json_fields.line(record.get("volume")),
        issue=json_fields.line(record.get("issue")),
        page=json_fields.line(record.get("page")),
        publisher=json_fields.line(record.get("publisher")),
        abstract=json_fields.abstract(record.get("abstract")),
    )


def _name(author: dict[str, Any]) -> str:
    """Given and family name of a person, or the name of a group."""
    parts = (json_fields.line(author.get(part)) for part in ("given", "family"))
    return " ".join(filter(None, parts)) or json_fields.line(author.get("name"))


def _year(record: dict[str, Any]) -> int | None:
    """The year of the first publication date that is present."""
    dates = (json_fields.mapping(record.get(name)) for name in ("published", "issued", "created"))
    years = (json_fields.year(json_fields.first(json_fields.first(date.get("date-parts")))) for date in dates)
    return next((year for year in years if year), None)


def _licence(record: dict[str, Any]) -> str:
    """The URL of a Creative Commons licence if there is one, else of the first."""
    urls = [json_fields.line(entry.get("URL")) for entry in json_fields.mappings(record.get("license"))]
    return next((url for url in urls if "creativecommons.org" in url), next(iter(urls), ""))


def _query(identifier: Identifier, options: ResolveOptions) -> dict[str, str]:
    return {"mailto": options.contact_email} if options.contact_email else {}


CROSSREF = Source(
    name="crossref",
    title="Crossref",
    path=lambda identifier: f"/works/{escaped(identifier.value)}",
    read=_read,
    query=_query,
)
