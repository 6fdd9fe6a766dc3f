"""Default limits for the services papers come from, according to their terms of use.

An operator can change every value at run time. Each key is for a service, not a host: arXiv counts all
requests from one operator together, to its API, its export host and its PDFs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pipeline.steps.identify import host_key
from queuemgr import Context

ARXIV, CROSSREF, UNPAYWALL = "resolver:arxiv", "resolver:crossref", "resolver:unpaywall"
OPENALEX, SEMANTIC_SCHOLAR = "resolver:openalex", "resolver:semanticscholar"

HOST_LIMITS: Mapping[str, Mapping[str, Any]] = {
    ARXIV: {"max_running": 1, "rate": "1/3s"},
    CROSSREF: {"max_running": 3, "rate": "1/s"},
    UNPAYWALL: {"max_running": 4, "rate": "100000/d burst 5"},
    OPENALEX: {"max_running": 4, "rate": "1/s"},
    SEMANTIC_SCHOLAR: {"max_running": 1, "rate": "1/s"},
}
"""Limits by service, and the source of their values:

- arXiv: one request every three seconds over one connection, terms of use of the API
  (info.arxiv.org/help/api/tou.html).
- Crossref: its responses state the current limit (`x-rate-limit-limit`); since 2025-12 the public pool
  allows 5 a second and one at a time, the polite pool 10 and three (crossref.org, documentation of the
  REST API). One a second is below both.
- Unpaywall: 100,000 a day (unpaywall.org/products/api), spread evenly, five at once after a pause.
- OpenAlex: at most 100 a second; single works cost nothing, a key is needed for more than a few a day
  since 2026-02 (developers.openalex.org, authentication). One a second is our choice.
- Semantic Scholar: one a second over all endpoints with a key; without one all clients share a pool,
  in which 429 is common (semanticscholar.org/product/api). One at a time is our choice.
"""


def limits_for_pdf(given: Context, arxiv_url: str) -> tuple[str, ...]:
    """The limits for fetching a PDF: that of its host, and arXiv's for all arXiv hosts and for the
    configured mirror."""
    host = str(given.get("host_key", ""))
    name = host.removeprefix("host:").rpartition(":")[0]
    on_arxiv = name == "arxiv.org" or name.endswith(".arxiv.org") or host == _host_of(arxiv_url)
    return (host, ARXIV) if on_arxiv else (host,)


@lru_cache(maxsize=8)
def _host_of(url: str) -> str:
    return host_key(url)
