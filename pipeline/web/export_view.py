"""Papers for other programs, over HTTP: `/papers/export?format=bibtex`, streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from pipeline.bibliography import FORMATS, written
from pipeline.models import Document
from pipeline.web.collection_view import CollectionQuery
from queuemgr.extend.api import allowed

MAX_KEYS = 500
"""Papers that one request may name; Django refuses more than 1,000 parameters."""


@require_safe
@allowed("read", "pipeline.view_document")
def export(request: HttpRequest) -> HttpResponseBase:
    """The papers chosen by `key` (may be repeated), `status`, `kind` and `q`, as in the collection; without
    one of these all of them. `format`: a name of `FORMATS`; `references=1`: what they cite, too."""
    form, keys = request.GET.get("format", ""), request.GET.getlist("key")
    if form not in FORMATS:
        return _refused(f"format must be one of {', '.join(FORMATS)}")
    if len(keys) > MAX_KEYS:
        return _refused(f"at most {MAX_KEYS:,} keys")
    rows = CollectionQuery(request.GET).documents(is_large=True)
    if keys:
        rows = rows.filter(key__in=[key.replace("\x00", "") for key in keys])
    return file_of(rows, form, references=request.GET.get("references", "") in ("1", "true"))


def file_of(rows: QuerySet[Document], form: str, *, references: bool) -> HttpResponseBase:
    """The file, sent as it is written."""
    pieces: Iterator[Any] = written(rows, form, references=references)
    response = StreamingHttpResponse(pieces, content_type=FORMATS[form].content_type)
    response["Content-Disposition"] = f'attachment; filename="papers.{FORMATS[form].suffix}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _refused(detail: str) -> HttpResponse:
    return JsonResponse({"status": 422, "detail": detail}, status=422)
