"""What becomes of documents whose executions are deleted: kept, or deleted with their files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from django.db import connection, transaction

from pipeline import files
from pipeline.config import pipeline_settings
from pipeline.execution_keys import key_again
from pipeline.models import FLOW, Document
from queuemgr.extend.models import Execution

FILES = (
    "pdf", "pages_file", "text", "references_file", "report_markdown", "report_json", "report_html",
)  # fmt: skip


def forget(keys: Sequence[str]) -> None:
    """Delete the documents of these executions, which are gone, and after the commit the files that no other
    document names. One that another execution reads again, or has, stays until that one goes, too.

    Nothing with `SLUICE_KEEP_DOCUMENTS`, the default. A file in the inbox that is still there will be
    enqueued again.
    """
    if pipeline_settings().keep_documents:
        return
    about = Document.objects.keys_of(keys).values()
    # Locked before executions are looked for: whoever enqueues a reading locks it, too. One that is locked
    # has a reading, or is about to: that one waits for our executions, so that we must not wait for it.
    skips = connection.features.has_select_for_update_skip_locked
    free = Document.objects.select_for_update(skip_locked=skips)
    locked = free.filter(key__in=set(about)).order_by("pk")
    documents = Document.objects.filter(key__in=_without_execution([each.key for each in locked.only("key")]))
    named = {name for row in documents.values_list(*FILES) for name in row if name}
    documents.delete()
    transaction.on_commit(partial(_remove, named - _in_use(named)))


def _without_execution(keys: Sequence[str]) -> list[str]:
    executions = {name: key for key in keys for name in (key, key_again(key))}
    left = Execution.objects.filter(flow=FLOW, key__in=executions).values_list("key", flat=True)
    kept = {executions[name] for name in left}
    return [key for key in keys if key not in kept]


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
