"""Load the document a step works on, and store the result."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db import transaction

from pipeline import files
from pipeline.models import Document
from queuemgr import Done, Work


def load(work: Work) -> Document:
    """The document this work is about."""
    with work.database():
        return Document.objects.select_related("extraction_schema").get(
            key=work.inputs.get("document") or work.key
        )


OWN_FILES = (
    "pages_file", "text", "references_file", "report_markdown", "report_json", "report_html",
)  # fmt: skip
"""Files of one document only; several documents may share a PDF."""


def done(document: Document, context: dict[str, Any] | None = None, **columns: Any) -> Done:
    """Done, storing these columns when the lease ends, and then removing the files they replace.

    Most storages overwrite a file of the same name; others give the new one a different name.
    """
    earlier = {name: getattr(document, name).name for name in OWN_FILES if name in columns}
    replaced = [old for name, old in earlier.items() if old and old != columns[name]]

    def store_and_remove() -> None:
        store(document.pk, columns)
        for old in replaced:
            transaction.on_commit(partial(files.remove, old), robust=True)

    return Done(context or {}, store=store_and_remove)


def store(pk: int, columns: dict[str, Any]) -> None:
    """Write these columns; called in the transaction that ends the lease."""
    Document.objects.filter(pk=pk).update(**columns)
