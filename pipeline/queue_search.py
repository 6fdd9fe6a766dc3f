"""Papers for the search box: by any part of a title or a DOI, and by their key."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q

from pipeline.models import Document
from pipeline.steps.report.plain_text import one_line
from queuemgr.extend.migrations import TrigramIndex
from queuemgr.extend.search import Found, search_provider

INDEXES = (TrigramIndex(Document, "title"), TrigramIndex(Document, "doi"))
"""A title is written once, so they cost a paper next to nothing; without them all titles are read, from an
index of their own."""


@search_provider("Papers", permission="pipeline.view_document")
def papers(text: str, at_most: int) -> Iterable[Found]:
    """The paper of this key, titles with all the words in any order, and DOIs that contain it."""
    ids: dict[int, None] = {}
    for condition in (_with_key(text), _every_word(text), Q(doi__icontains=text)):
        if len(ids) <= at_most:
            found = Document.objects.filter(condition).order_by().values_list("pk", flat=True)
            ids |= dict.fromkeys(found[: 4 * at_most])
    rows = Document.objects.filter(pk__in=ids).only("key", "title", "year", "doi").in_bulk()
    return [_found(row) for row in rows.values()]


def _with_key(text: str) -> Q:
    """A key found by its index, with or without what stands before its identifier."""
    return Q(key__in=(text, *(f"{kind}:{text}" for kind in ("arxiv", "doi", "url", "file"))))


def _every_word(text: str) -> Q:
    return Q(*(Q(title__icontains=word) for word in text.split()))


def _found(paper: Document) -> Found:
    title = one_line(paper.title)
    said = ", ".join(str(each) for each in (paper.key if title else "", paper.year) if each)
    return Found(title or paper.key, said, "pipeline_document_change", (paper.pk,))
