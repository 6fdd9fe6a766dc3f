"""What becomes of documents whose executions are deleted: kept, or deleted with their files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from django.db import transaction

from pipeline import files
from pipeline.config import pipeline_settings
from pipeline.models import Document

FILES = (
    "pdf", "pages_file", "text", "references_file", "report_markdown", "report_json", "report_html",
)  # fmt: skip


def forget(keys: Sequence[str]) -> None:
    """Delete these documents, and after the commit the files that no other document names.

    Nothing with `SLUICE_KEEP_DOCUMENTS`, the default. A file in the inbox that is still there will be
    enqueued again.
    """
    if pipeline_settings().keep_documents:
        return
    documents = Document.objects.filter(key__in=keys)
    named = {name for row in documents.values_list(*FILES) for name in row if name}
    documents.delete()
    transaction.on_commit(partial(_remove, named - _in_use(named)))


def _in_use(names: set[str]) -> set[str]:
    """PDFs are named by their bytes, so that two documents may share one."""
    return {
        name
        for column in FILES
        for name in Document.objects.filter(**{f"{column}__in": names}).values_list(column, flat=True)
    }


def _remove(names: set[str]) -> None:
    for name in names:
        files.remove(name)
