"""Semantic Scholar: an open PDF of a DOI, and the arXiv id of its preprint.

Academic Graph API of 2025 (api.semanticscholar.org/api-docs): `GET /graph/v1/paper/DOI:{doi}`.
With a key one request a second over all endpoints; without one all clients share a pool.
"""

from __future__ import annotations

from typing import Any

from pipeline.steps.identify import Identifier, identify
from pipeline.steps.resolve.sources import json_fields
from pipeline.steps.resolve.sources.answer import Address, Answer, Paper, Rank
from pipeline.steps.resolve.sources.source import ResolveOptions, Source, escaped
from queuemgr import BadInput

_FIELDS = "title,year,authors,externalIds,openAccessPdf"


def _read(body: bytes, identifier: Identifier) -> Answer:
    record = json_fields.record_of(body, "Semantic Scholar")
    pdf = json_fields.mapping(record.get("openAccessPdf"))
    arxiv_id = _arxiv_id(json_fields.mapping(record.get("externalIds")).get("ArXiv"))
    preprint = f"https://arxiv.org/pdf/{arxiv_id}" if arxiv_id else ""
    urls = dict.fromkeys(filter(None, (json_fields.link(pdf.get("url")), preprint)))
    addresses = tuple(Address(url, SEMANTIC_SCHOLAR.name, Rank.OPEN_PDF) for url in urls)
    return Answer.of(addresses, _paper(record, pdf, arxiv_id))


def _paper(record: dict[str, Any], pdf: dict[str, Any], arxiv_id: str) -> Paper:
    people = json_fields.mappings(record.get("authors"))
    return Paper(
        title=json_fields.title(record.get("title")),
        authors=json_fields.names([who.get("name") for who in people]),
        year=json_fields.year(record.get("year")),
        licence=json_fields.line(pdf.get("license")),
        open_access=json_fields.line(pdf.get("status"), 20).lower(),
        doi=json_fields.doi(json_fields.mapping(record.get("externalIds")).get("DOI")),
        arxiv_id=arxiv_id,
    )


def _arxiv_id(value: Any) -> str:
    try:
        return identify(f"arXiv:{value}").value if isinstance(value, str) else ""
    except BadInput:
        return ""


def _headers(options: ResolveOptions) -> dict[str, str]:
    key = options.semanticscholar_api_key
    return {"x-api-key": key} if key else {}


SEMANTIC_SCHOLAR = Source(
    name="semanticscholar",
    title="Semantic Scholar",
    path=lambda identifier: f"/graph/v1/paper/DOI:{escaped(identifier.value)}",
    read=_read,
    query=lambda identifier, options: {"fields": _FIELDS},
    headers=_headers,
    shared_pool=True,
)
