"""arXiv: the metadata of one of its papers, and its latest version.

API of arXiv (info.arxiv.org/help/api): `GET /api/query?id_list=…` returns an Atom feed. The URL of the
PDF follows from the id alone (`pdf_url`).
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from pipeline.steps.http.bounded_xml import root_of
from pipeline.steps.identify import Identifier, identify
from pipeline.steps.resolve.sources import json_fields
from pipeline.steps.resolve.sources.answer import Address, Answer, Outcome, Paper, Rank
from pipeline.steps.resolve.sources.source import Source
from queuemgr import BadInput, StepFailed

REFUSED_SECONDS = 6 * 3600.0
"""Seconds without a request to arXiv after a 403: it regards further ones as an attack
(info.arxiv.org/help/robots.html). The length is our own choice."""

_ATOM = "{http://www.w3.org/2005/Atom}"
_ARXIV = "{http://arxiv.org/schemas/atom}"
_HEAD = 1024
"""Bytes within which a refusal is stated, if it is one."""


def pdf_url(arxiv_url: str, value: str, version: int | None) -> str:
    """The URL of a paper's PDF; without a version, the latest."""
    return f"{arxiv_url.rstrip('/')}/pdf/{versioned_id(value, version)}"


def versioned_id(value: str, version: int | None) -> str:
    return value if version is None else f"{value}v{version}"


def interpret_refusal(failure: StepFailed) -> StepFailed:
    """A 403 of arXiv stops all requests to it for hours: it regards further ones as an attack."""
    if failure.http_status != 403:
        return failure
    return StepFailed(
        "rate_limited",
        f"{failure.message}: arXiv refuses this client; no requests to it for a while",
        retry_after=REFUSED_SECONDS,
        http_status=403,
    )


def _read(body: bytes, identifier: Identifier) -> Answer:
    entry = _feed(body).find(f"{_ATOM}entry")
    if entry is None:
        # arXiv also sends an empty feed when busy: it does not mean that there is no such paper.
        return Answer(Outcome.UNSURE)
    if "/api/errors" in _text(entry, f"{_ATOM}id"):
        return Answer(Outcome.NOT_KNOWN)
    return _answer(entry, identifier)


def _feed(body: bytes) -> ElementTree.Element:
    if b"rate exceeded" in body[:_HEAD].lower():
        raise StepFailed("rate_limited", "arXiv says that its rate limit was exceeded")
    feed = root_of(body, "arXiv", "an Atom feed")
    if feed.tag != f"{_ATOM}feed":
        raise StepFailed("bad_answer", "arXiv sent XML that is not an Atom feed")
    return feed


def _answer(entry: ElementTree.Element, identifier: Identifier) -> Answer:
    found = _identified(_text(entry, f"{_ATOM}id"))
    if found is None or found.value != identifier.value:
        raise StepFailed("bad_answer", "arXiv answered about a different paper")
    version = found.version if identifier.version is None else identifier.version
    here = pdf_url("https://arxiv.org", identifier.value, version)
    people = [_text(author, f"{_ATOM}name") for author in entry.iter(f"{_ATOM}author")]
    paper = Paper(
        title=json_fields.title(_text(entry, f"{_ATOM}title")),
        authors=json_fields.names(people),
        year=json_fields.year(_text(entry, f"{_ATOM}published")),
        licence=json_fields.line(_text(entry, f"{_ARXIV}license")),
        doi=json_fields.doi(_text(entry, f"{_ARXIV}doi")),
        arxiv_id=versioned_id(identifier.value, version),
        abstract=json_fields.abstract(_text(entry, f"{_ATOM}summary")),
    )
    return Answer.of((Address(here, ARXIV.name, Rank.OPEN_PDF),), paper)


def _identified(url: str) -> Identifier | None:
    try:
        return identify(re.sub(r"^http:", "https:", url))
    except BadInput:
        return None


def _text(entry: ElementTree.Element, name: str) -> str:
    return (entry.findtext(name) or "").strip()


ARXIV = Source(
    name="arxiv",
    title="arXiv",
    path=lambda identifier: "/api/query",
    read=_read,
    query=lambda identifier, options: {
        "id_list": versioned_id(identifier.value, identifier.version),
        "max_results": "1",
    },
    interpret=interpret_refusal,
)
