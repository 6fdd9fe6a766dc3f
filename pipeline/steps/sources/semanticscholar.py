"""Semantic Scholar: an open PDF of a DOI, and the arXiv id of its preprint.

Academic Graph API of 2025 (api.semanticscholar.org/api-docs): `GET /graph/v1/paper/DOI:{doi}`.
With a key one request a second over all endpoints; without one a pool shared with everybody.
"""

from __future__ import annotations

from typing import Any

from pipeline.steps.identify import Identifier, identify
from pipeline.steps.sources import shapes
from pipeline.steps.sources.answer import Address, Answer, Paper, Rank
from pipeline.steps.sources.source import ResolveOptions, Source, escaped
from queuemgr.errors import BadInput

_FIELDS = "title,year,authors,externalIds,openAccessPdf"


def _read(body: bytes, asked: Identifier) -> Answer:
    record = shapes.record_of(body, "Semantic Scholar")
    pdf = shapes.mapping(record.get("openAccessPdf"))
    arxiv_id = _arxiv_id(shapes.mapping(record.get("externalIds")).get("ArXiv"))
    preprint = f"https://arxiv.org/pdf/{arxiv_id}" if arxiv_id else ""
    urls = dict.fromkeys(filter(None, (shapes.link(pdf.get("url")), preprint)))
    addresses = tuple(Address(url, SEMANTIC_SCHOLAR.name, Rank.OPEN_PDF) for url in urls)
    return Answer.of(addresses, _paper(record, pdf, arxiv_id))


def _paper(record: dict[str, Any], pdf: dict[str, Any], arxiv_id: str) -> Paper:
    people = shapes.mappings(record.get("authors"))
    return Paper(
        title=shapes.title(record.get("title")),
        authors=shapes.names([who.get("name") for who in people]),
        year=shapes.year(record.get("year")),
        licence=shapes.line(pdf.get("license")),
        open_access=shapes.line(pdf.get("status"), 20).lower(),
        doi=shapes.doi(shapes.mapping(record.get("externalIds")).get("DOI")),
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
    path=lambda asked: f"/graph/v1/paper/DOI:{escaped(asked.value)}",
    read=_read,
    query=lambda asked, options: {"fields": _FIELDS},
    headers=_headers,
    shared_pool=True,
)
