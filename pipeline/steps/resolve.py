"""Where the PDF of a document is: asked of arXiv's naming rule, the disk, Unpaywall, Crossref."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import httpx

from pipeline.steps.addresses import Reach, name_and_port
from pipeline.steps.http import HttpClient
from pipeline.steps.identify import Identifier
from queuemgr.abort import AbortSignal
from queuemgr.errors import StepFailed

MAX_TITLE = 500
"""Characters."""


@dataclass(frozen=True)
class ResolveOptions:
    """Whom to ask, and how long each may take (`deadline`, seconds).

    Unpaywall wants a real address to write to: without `contact_email` it is not asked.
    """

    contact_email: str = ""
    arxiv_url: str = "https://export.arxiv.org"
    unpaywall_url: str = "https://api.unpaywall.org"
    crossref_url: str = "https://api.crossref.org"
    deadline: float = 60.0


@dataclass(frozen=True)
class Resolved:
    """Where the PDF is: at `pdf_url`, or already here at `path`. An unknown title is empty."""

    pdf_url: str | None
    path: str | None
    title: str
    source: str


def resolve(
    identifier: Identifier, options: ResolveOptions, http: HttpClient, signal: AbortSignal
) -> Resolved:
    """Find the PDF of a document.

    Raises StepFailed: "not_found" for a missing file, "unresolvable" when every source answered and
    none had a PDF, and a source's own failure when one that was asked could not answer.
    """
    match identifier.kind:
        case "arxiv":
            return _on_arxiv(identifier, options)
        case "file":
            return _on_disk(identifier.value)
        case "url":
            return Resolved(identifier.value, None, "", "url")
        case "doi":
            return _by_doi(identifier.value, options, http, signal)


def _on_arxiv(identifier: Identifier, options: ResolveOptions) -> Resolved:
    version = "" if identifier.version is None else f"v{identifier.version}"
    base = options.arxiv_url.rstrip("/")
    return Resolved(f"{base}/pdf/{identifier.value}{version}", None, "", "arxiv")


def _on_disk(path: str) -> Resolved:
    if not os.path.isfile(path):
        raise StepFailed("not_found", f"there is no file {path}")
    if not os.access(path, os.R_OK):
        raise StepFailed("not_found", f"the file {path} may not be read by this process")
    return Resolved(None, path, "", "file")


@dataclass(frozen=True)
class _Source:
    """Someone who may know a PDF for a DOI: the address to ask, and how to read the answer."""

    name: str
    url: str
    read: Callable[[Any], tuple[str | None, str]]


def _by_doi(doi: str, options: ResolveOptions, http: HttpClient, signal: AbortSignal) -> Resolved:
    title, unanswered = "", None
    for source in _sources(doi, options):
        try:
            pdf_url, found = _ask(source, options, http, signal)
        except StepFailed as failure:
            unanswered = unanswered or failure
            continue
        title = title or found
        if pdf_url:
            return Resolved(pdf_url, None, title, source.name)
    raise unanswered or _unresolvable(doi, options)


def _sources(doi: str, options: ResolveOptions) -> list[_Source]:
    # Slashes are escaped too: a DOI may hold `/../`, which must not climb out of the path.
    name, email = quote(doi, safe=""), options.contact_email
    contact = f"?{urlencode({'mailto': email})}" if email else ""
    crossref = f"{options.crossref_url.rstrip('/')}/works/{name}{contact}"
    unpaywall = f"{options.unpaywall_url.rstrip('/')}/v2/{name}?{urlencode({'email': email})}"
    asked = [_Source("unpaywall", unpaywall, _read_unpaywall)] if email else []
    return [*asked, _Source("crossref", crossref, _read_crossref)]


def _ask(
    source: _Source, options: ResolveOptions, http: HttpClient, signal: AbortSignal
) -> tuple[str | None, str]:
    """What the source says; one that does not know the DOI has answered: no PDF."""
    try:
        answer = http.run(http.get_json(source.url, _reach(source.url), options.deadline), signal)
    except StepFailed as failure:
        if failure.kind == "not_found":
            return None, ""
        failure.limit = f"resolver:{source.name}"
        raise
    return source.read(answer)


def _reach(url: str) -> Reach:
    """The operator's own choice of host is trusted; where it redirects to is not."""
    return Reach(trusted_hosts=frozenset({name_and_port(httpx.URL(url))}))


def _read_unpaywall(answer: Any) -> tuple[str | None, str]:
    record = _record(answer, "Unpaywall")
    places = [record.get("best_oa_location"), *_list(record.get("oa_locations"))]
    links = [place.get("url_for_pdf") for place in places if isinstance(place, dict)]
    return _first_link(links), _title(record.get("title"))


def _read_crossref(answer: Any) -> tuple[str | None, str]:
    record = _record(_record(answer, "Crossref").get("message"), "Crossref")
    links = [link for link in _list(record.get("link")) if isinstance(link, dict)]
    # Links for similarity checking are mostly closed to anyone but the checker: they come last.
    links.sort(key=lambda link: link.get("intended-application") == "similarity-checking")
    pdfs = [link.get("URL") for link in links if link.get("content-type") == "application/pdf"]
    return _first_link(pdfs), _title(next(iter(_list(record.get("title"))), ""))


def _record(answer: Any, source: str) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise StepFailed("bad_answer", f"{source} answered without a record of the work")
    return answer


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _first_link(links: list[Any]) -> str | None:
    usable = (link for link in links if isinstance(link, str) and link.startswith("http"))
    return next(usable, None)


def _title(value: Any) -> str:
    """A title on one line; NUL and lone surrogates, which databases refuse, are dropped."""
    text = " ".join(value.split()) if isinstance(value, str) else ""
    return "".join(letter for letter in text if letter.isprintable())[:MAX_TITLE]


def _unresolvable(doi: str, options: ResolveOptions) -> StepFailed:
    asked = "Unpaywall and Crossref were asked"
    if not options.contact_email:
        asked = "Crossref was asked (Unpaywall was not: no contact email is set)"
    return StepFailed("unresolvable", f"no open PDF is known for doi:{doi}; {asked}")
