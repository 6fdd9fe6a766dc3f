"""Links to what was made of a document: its report in each form, the PDF, its text."""

from __future__ import annotations

from django.urls import reverse

from pipeline.models import Document
from pipeline.web.views import KINDS
from queuemgr import Link

NAMES = {
    "page": "report", "pdf": "PDF", "text": "text", "report": "Markdown", "references": "references",
    "json": "JSON",
}  # fmt: skip
"""What people call each kind of file."""


def links_of(document: Document) -> list[Link]:
    """A link for each file there is."""
    made = [kind for kind, (field, _) in KINDS.items() if getattr(document, field)]
    return [Link(NAMES[kind], reverse("artifact", args=[document.pk, kind])) for kind in made]


def artifacts(key: str) -> list[Link]:
    """The same by the key of the document; none where it is not known."""
    fields = [field for field, _ in KINDS.values()]
    document = Document.objects.filter(key=key).only(*fields).first()
    return links_of(document) if document else []
