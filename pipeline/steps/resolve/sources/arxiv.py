"""arXiv: the facts about one of its papers, and which version is the latest.

API of arXiv (info.arxiv.org/help/api): `GET /api/query?id_list=…`, answered as an Atom feed. Where its
PDF is follows from the id alone (`pdf_url`).
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from pipeline.steps.identify import Identifier, identify
from pipeline.steps.resolve.sources import json_fields
from pipeline.steps.resolve.sources.answer import Address, Answer, Outcome, Paper, Rank
from pipeline.steps.resolve.sources.source import Source
from queuemgr import BadInput, StepFailed

REFUSED_SECONDS = 6 * 3600.0
"""Seconds arXiv is left alone after a 403: it takes requests after one for an attack
(info.arxiv.org/help/robots.html). The length is ours."""

_ATOM = "{http://www.w3.org/2005/Atom}"
_ARXIV = "{http://arxiv.org/schemas/atom}"
_HEAD = 1024
"""Bytes in which a document type stands, where there is one."""


def pdf_url(arxiv_url: str, value: str, version: int | None) -> str:
    """Where a paper's PDF is; without a version, its latest."""
    return f"{arxiv_url.rstrip('/')}/pdf/{spelled(value, version)}"


def spelled(value: str, version: int | None) -> str:
    return value if version is None else f"{value}v{version}"


def refused(failure: StepFailed) -> StepFailed:
    """A 403 of arXiv's closes its limit for hours: more requests would be taken for an attack."""
    if failure.http_status != 403:
        return failure
    return StepFailed(
        "rate_limited",
        f"{failure.message}: arXiv refuses this client, and is left alone for a while",
        retry_after=REFUSED_SECONDS,
        http_status=403,
    )


def _read(body: bytes, asked: Identifier) -> Answer:
    entry = _feed(body).find(f"{_ATOM}entry")
    if entry is None:
        # arXiv gives an empty feed when it is busy, too: it does not say that there is no such paper.
        return Answer(Outcome.UNSURE)
    if "/api/errors" in _text(entry, f"{_ATOM}id"):
        return Answer(Outcome.NOT_KNOWN)
    return _answer(entry, asked)


def _feed(body: bytes) -> ElementTree.Element:
    if b"<!doctype" in body[:_HEAD].lower():
        raise StepFailed("bad_answer", "arXiv sent a web page in place of a feed")
    if b"rate exceeded" in body[:_HEAD].lower():
        raise StepFailed("rate_limited", "arXiv says that its rate was exceeded")
    if b"<!entity" in body.lower():
        raise StepFailed("bad_answer", "arXiv sent a feed that defines entities")
    try:
        # Entities, which may expand without end, were refused above.
        feed = ElementTree.fromstring(body)  # noqa: S314 - expat bounds expansion; the body is bounded too
    except (ElementTree.ParseError, ValueError) as error:
        raise StepFailed("bad_answer", f"arXiv sent no Atom feed: {error}") from error
    if feed.tag != f"{_ATOM}feed":
        raise StepFailed("bad_answer", "arXiv sent XML that is no Atom feed")
    return feed


def _answer(entry: ElementTree.Element, asked: Identifier) -> Answer:
    found = _identified(_text(entry, f"{_ATOM}id"))
    if found is None or found.value != asked.value:
        raise StepFailed("bad_answer", "arXiv answered about another paper than the one asked for")
    version = found.version if asked.version is None else asked.version
    here = pdf_url("https://arxiv.org", asked.value, version)
    people = [_text(author, f"{_ATOM}name") for author in entry.iter(f"{_ATOM}author")]
    paper = Paper(
        title=json_fields.title(_text(entry, f"{_ATOM}title")),
        authors=json_fields.names(people),
        year=json_fields.year(_text(entry, f"{_ATOM}published")),
        licence=json_fields.line(_text(entry, f"{_ARXIV}license")),
        doi=json_fields.doi(_text(entry, f"{_ARXIV}doi")),
        arxiv_id=spelled(asked.value, version),
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
    path=lambda asked: "/api/query",
    read=_read,
    query=lambda asked, options: {
        "id_list": spelled(asked.value, asked.version),
        "max_results": "1",
    },
    understood=refused,
)
