"""One page of a paper: its picture beside the text that was read of it, and the picture alone.

Pictures are drawn when they are asked for, in a child process with limits; few at a time in one web server.
"""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

from django.contrib.auth.decorators import login_required, permission_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from pipeline import files, storage
from pipeline.config import pipeline_settings
from pipeline.models import Document
from pipeline.sandbox_required import refuse_without_sandbox
from pipeline.steps.analyse.analysis import claims_in
from pipeline.steps.pdf.drawing_time import DrawingLimits
from pipeline.steps.pdf.page_images import PageImages
from pipeline.steps.pdf.page_outcomes import PageFailed
from pipeline.steps.pdf.renderer import RenderOptions
from pipeline.steps.report.claims_report import shown_claims
from pipeline.steps.report.report import PAGE_SOURCES, one_line, plain
from pipeline.web.views import SANDBOX
from queuemgr import NEVER, StepFailed

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'"
)

AT_ONCE, WAIT_SECONDS = 2, 20.0
"""Pages drawn at a time in one process, and how long another one waits for its turn."""

LONGEST_TEXT = 200_000
"""Characters of a page that are shown; a page of a paper has 4,000."""

_places = threading.BoundedSemaphore(AT_ONCE)


@login_required(login_url="admin:login")
@permission_required("pipeline.view_document", raise_exception=True)
@require_safe
def paper_page(request: HttpRequest, pk: int, number: int) -> HttpResponse:
    """A page with its text, and what was found on it."""
    document = get_object_or_404(Document, pk=pk)
    record = _record(document, number)
    source, last = str(record.get("source", "")), document.pages or number
    text = plain(str(record.get("text", "")))
    claims = ((kind, [each for each in listed if each.page == number]) for kind, listed in _claims(document))
    shown = {
        "title": one_line(document.title or document.key),
        "number": number,
        "last": last,
        "source": one_line(PAGE_SOURCES.get(source, source)),
        "reason": one_line(str(record.get("reason", ""))),
        "text": text[:LONGEST_TEXT],
        "is_cut": len(text) > LONGEST_TEXT,
        "has_picture": bool(document.pdf) and source != "blank",
        "claims": [(heading, listed) for heading, listed in claims if listed],
        "report": reverse("artifact", args=[pk, "page"]) if document.report_html else "",
        "pdf": reverse("artifact", args=[pk, "pdf"]) if document.pdf else "",
        "earlier": reverse("paper_page", args=[pk, number - 1]) if number > 1 else "",
        "later": reverse("paper_page", args=[pk, number + 1]) if number < last else "",
        "picture": reverse("page_picture", args=[pk, number]),
    }
    response = render(request, "papers/page.html", shown)
    response["Content-Security-Policy"] = POLICY
    return response


def _claims(document: Document) -> Any:
    return shown_claims(claims_in(document.analysis))


def _record(document: Document, number: int) -> dict[str, Any]:
    """What was read of this page. Raises `Http404`."""
    if files.exists(document.pages_file):
        with storage.opened(document.pages_file.name) as lines:
            for line in lines:
                record = json.loads(line)
                if record.get("number") == number:
                    return dict(record)
    raise Http404("this page was not read")


@login_required(login_url="admin:login")
@permission_required("pipeline.view_document", raise_exception=True)
@require_safe
def page_picture(request: HttpRequest, pk: int, number: int) -> HttpResponse:
    """The picture of a page, as JPEG."""
    document = get_object_or_404(Document.objects.only("pdf", "pages", "sha256"), pk=pk)
    if not 1 <= number <= (document.pages or 0) or not files.exists(document.pdf):
        raise Http404("there is no such page")
    tag = f'"{document.sha256}-{number}"'
    if document.sha256 and request.headers.get("If-None-Match") == tag:
        return HttpResponseNotModified()
    if not _places.acquire(timeout=WAIT_SECONDS):
        return HttpResponse("Other pages are being drawn.", status=503, headers={"Retry-After": "5"})
    try:
        picture = _drawn(document, number)
    except StepFailed as failure:
        return HttpResponse(one_line(failure.message), status=503, content_type="text/plain; charset=utf-8")
    finally:
        _places.release()
    if not picture:
        raise Http404("this page is blank, or cannot be drawn")
    return HttpResponse(
        picture,
        content_type="image/jpeg",
        headers={
            "ETag": tag, "Cache-Control": "private, max-age=86400", "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": SANDBOX,
        },
    )  # fmt: skip


def _drawn(document: Document, number: int) -> bytes:
    """Its picture; nothing of a page that is blank or fails. Raises `StepFailed` if none can be drawn."""
    refuse_without_sandbox()
    config = pipeline_settings()
    options = RenderOptions(
        limits=DrawingLimits(config.page_seconds, config.page_seconds), memory_bytes=config.extract_memory
    )
    with files.on_disk(document.pdf) as pdf:
        return asyncio.run(_picture(pdf, number, options))


async def _picture(pdf: Path, number: int, options: RenderOptions) -> bytes:
    async with PageImages(pdf, [number], 1, options, NEVER) as images:
        try:
            return (await images.take(0)).data
        except PageFailed:
            return b""
