"""Unpaywall: the open-access copies of a DOI.

REST API of 2025 (unpaywall.org/products/api, data format at unpaywall.org/data-format):
`GET /v2/{doi}?email=…`; the e-mail address must be a real one, or the answer is 422.
"""

from __future__ import annotations

from typing import Any

from pipeline.steps.identify import Identifier
from pipeline.steps.resolve.sources import json_fields
from pipeline.steps.resolve.sources.answer import Address, Answer, Paper, Rank
from pipeline.steps.resolve.sources.source import ResolveOptions, Source, escaped


def _unavailable_reason(options: ResolveOptions) -> str:
    return "" if options.contact_email else "no contact email is set"


def _read(body: bytes, identifier: Identifier) -> Answer:
    record = json_fields.record_of(body, UNPAYWALL.title)
    best = json_fields.mapping(record.get("best_oa_location"))
    locations = [best, *json_fields.mappings(record.get("oa_locations"))]
    pdfs = _addresses(locations, "url_for_pdf", Rank.OPEN_PDF)
    pages = _addresses(locations, "url_for_landing_page", Rank.OPEN_PAGE)
    return Answer.of((*pdfs, *pages), _paper(record, best))


def _addresses(locations: list[dict[str, Any]], name: str, rank: Rank) -> list[Address]:
    links = dict.fromkeys(filter(None, (json_fields.link(location.get(name)) for location in locations)))
    return [Address(url, UNPAYWALL.name, rank) for url in links]


def _paper(record: dict[str, Any], best: dict[str, Any]) -> Paper:
    return Paper(
        title=json_fields.title(record.get("title")),
        authors=json_fields.names([_name(who) for who in json_fields.mappings(record.get("z_authors"))]),
        year=json_fields.year(record.get("year")),
        licence=json_fields.line(best.get("license")),
        open_access=json_fields.line(record.get("oa_status"), 20),
        doi=json_fields.doi(record.get("doi")),
    )


def _name(author: dict[str, Any]) -> str:
    """Newer records have the name as printed, older ones given and family name."""
    parts = (json_fields.line(author.get(part)) for part in ("given", "family"))
    return json_fields.line(author.get("raw_author_name")) or " ".join(filter(None, parts))


UNPAYWALL = Source(
    name="unpaywall",
    title="Unpaywall",
    path=lambda identifier: f"/v2/{escaped(identifier.value)}",
    read=_read,
    query=lambda identifier, options: {"email": options.contact_email},
    unavailable_reason=_unavailable_reason,
)
