"""OpenAlex: all known locations of a DOI's paper.

API of 2026 (developers.openalex.org): `GET /works/doi:{doi}`, free of charge for single works;
`api_key` is optional for a few requests a day and required for more. Its own copies of PDFs
(`content.openalex.org`) cost money, so they are left out.
"""

from __future__ import annotations

from typing import Any

from pipeline.steps.identify import Identifier
from pipeline.steps.resolve.sources import json_fields
from pipeline.steps.resolve.sources.answer import Address, Answer, Paper, Rank
from pipeline.steps.resolve.sources.source import ResolveOptions, Source, escaped

_FIELDS = (
    "id,doi,title,publication_year,authorships,open_access,best_oa_location,locations,biblio,primary_location"
)
_PAID_HOST = "content.openalex.org"


def _read(body: bytes, identifier: Identifier) -> Answer:
    record = json_fields.record_of(body, "OpenAlex")
    best = json_fields.mapping(record.get("best_oa_location"))
    locations = [best, *json_fields.mappings(record.get("locations"))]
    pdfs = [_address(location, "pdf_url", Rank.OPEN_PDF, Rank.PDF) for location in locations]
    pages = [_address(location, "landing_page_url", Rank.OPEN_PAGE, Rank.PAGE) for location in locations]
    found = dict.fromkeys(address for address in (*pdfs, *pages) if address)
    return Answer.of(tuple(found), _paper(record, best))


def _address(location: dict[str, Any], name: str, if_open: Rank, if_not: Rank) -> Address | None:
    url = json_fields.link(location.get(name))
    if not url or _PAID_HOST in url:
        return None
    return Address(url, OPENALEX.name, if_open if location.get("is_oa") is True else if_not)


def _paper(record: dict[str, Any], best: dict[str, Any]) -> Paper:
    people = (
        json_fields.mapping(who.get("author")) for who in json_fields.mappings(record.get("authorships"))
    )
    biblio = json_fields.mapping(record.get("biblio"))
    journal = json_fields.mapping(json_fields.mapping(record.get("primary_location")).get("source"))
    return Paper(
        title=json_fields.title(record.get("title")),
        authors=json_fields.names([who.get("display_name") for who in people]),
        year=json_fields.year(record.get("publication_year")),
        licence=json_fields.line(best.get("license")),
        open_access=json_fields.line(json_fields.mapping(record.get("open_access")).get("oa_status"), 20),
        doi=json_fields.doi(record.get("doi")),
        venue=json_fields.title(journal.get("display_name")),
        volume=json_fields.line(biblio.get("volume")),
        issue=json_fields.line(biblio.get("issue")),
        page="-".join(
            filter(None, map(json_fields.line, (biblio.get("first_page"), biblio.get("last_page"))))
        ),
    )


def _query(identifier: Identifier, options: ResolveOptions) -> dict[str, str]:
    contact = {"mailto": options.contact_email} if options.contact_email else {}
    key = {"api_key": options.openalex_api_key} if options.openalex_api_key else {}
    return {"select": _FIELDS, **contact, **key}


OPENALEX = Source(
    name="openalex",
    title="OpenAlex",
    path=lambda identifier: f"/works/doi:{escaped(identifier.value)}",
    read=_read,
    query=_query,
)
