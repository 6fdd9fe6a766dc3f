"""Serve a document's files to users with permission to view it."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required, permission_required
from django.http import FileResponse, Http404, HttpRequest
from django.shortcuts import get_object_or_404

from pipeline import storage
from pipeline.files import exists
from pipeline.models import Document

KINDS = {
    "page": ("report_html", "text/html; charset=utf-8"),
    "pdf": ("pdf", "application/pdf"),
    "text": ("text", "text/plain; charset=utf-8"),
    "report": ("report_markdown", "text/plain; charset=utf-8"),
    "references": ("references_file", "text/plain; charset=utf-8"),
    "json": ("report_json", "application/json"),
}
"""The kinds of files: the document's field, and the content type. The HTML page is rendered by us, with
the untrusted text of the paper escaped."""

SANDBOX = "sandbox; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
PAGE_POLICY = f"{SANDBOX}; default-src 'none'; style-src 'unsafe-inline'"
"""Whatever the page contains: no script runs, nothing is loaded, no form is sent, and it has no origin,
so that it cannot use our cookies."""


@login_required(login_url="admin:login")
@permission_required("pipeline.view_document", raise_exception=True)
def artifact(request: HttpRequest, pk: int, kind: str) -> FileResponse:
    """One file of a document."""
    if kind not in KINDS:
        raise Http404(f"a document has {', '.join(KINDS)}")
    field, content_type = KINDS[kind]
    file = getattr(get_object_or_404(Document, pk=pk), field)
    if not exists(file):
        raise Http404("this file does not exist yet")
    size = storage.size(file.name)
    # Before the headers are sent: it may not answer.
    response = FileResponse(storage.open_started(file.name), content_type=content_type)
    response["Content-Length"] = size
    response["Content-Security-Policy"] = PAGE_POLICY if kind == "page" else SANDBOX
    response["X-Content-Type-Options"] = "nosniff"
    return response
