"""Serving a document's files to those who may see it."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required, permission_required
from django.http import FileResponse, Http404, HttpRequest
from django.shortcuts import get_object_or_404

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
"""What may be asked for: the document's field, and the type it is served as. The one page is of our own
making and has the text of a paper, a stranger's, escaped in it."""

SANDBOX = "sandbox"
PAGE_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'"
"""Whatever got into the page all the same: no script runs, nothing is loaded, no form is sent, and it
is of no origin, so our cookies are out of its reach."""


@login_required(login_url="admin:login")
@permission_required("pipeline.view_document", raise_exception=True)
def artifact(request: HttpRequest, pk: int, kind: str) -> FileResponse:
    """One file of a document."""
    if kind not in KINDS:
        raise Http404(f"a document has {', '.join(KINDS)}")
    field, content_type = KINDS[kind]
    file = getattr(get_object_or_404(Document, pk=pk), field)
    if not exists(file):
        raise Http404("not made yet")
    response = FileResponse(file.open("rb"), content_type=content_type)
    response["Content-Security-Policy"] = PAGE_POLICY if kind == "page" else SANDBOX
    response["X-Content-Type-Options"] = "nosniff"
    return response
