"""Links to a document's files: its report in each format, the PDF, the text."""

from __future__ import annotations

from django.urls import reverse

from pipeline.models import Document
from pipeline.web.views import KINDS
from queuemgr import Link

NAMES = {
    "page": "report", "pdf": "PDF", "text": "text", "report": "Markdown", "references": "references",
    "json": "JSON",
}  # fmt: skip
"""The label of each kind of file."""


def links_of(document: Document) -> list[Link]:
    """A link for each existing file."""
    made = [kind for kind, (field, _) in KINDS.items() if getattr(document, field)]
    return [Link(NAMES[kind], reverse("artifact", args=[document.pk, kind])) for kind in made]


def artifacts(key: str) -> list[Link]:
    """The same by the document's key; none if it does not exist."""
    fields = [field for field, _ in KINDS.values()]
    document = Document.objects.of_execution(key).only(*fields).first()
    return links_of(document) if document else []
