"""Loading the document a step works on, and storing what the step made of it."""

from __future__ import annotations

from typing import Any

from django.db import connection

from pipeline.models import Document
from queuemgr.leased_task import Work
from queuemgr.outcomes import Done


def load(work: Work) -> Document:
    """The document, with no connection kept while the step works on it."""
    document = Document.objects.get(key=work.key)
    connection.close()
    return document


def done(document: Document, context: dict[str, Any] | None = None, **columns: Any) -> Done:
    """Done, storing these columns when the lease ends."""
    return Done(context or {}, store=lambda: store(document.pk, columns))


def store(pk: int, columns: dict[str, Any]) -> None:
    """Write these columns; to be called in the transaction that ends the lease."""
    Document.objects.filter(pk=pk).update(**columns)
