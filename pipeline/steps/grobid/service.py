"""Requests to a GROBID server: the references of a PDF, and its version."""

from __future__ import annotations

from pathlib import Path

from pipeline.steps.grobid.tei import version_in
from pipeline.steps.http.client import HttpClient
from pipeline.steps.resolve.sources.request import Reply, get, post_file
from queuemgr import AbortSignal, StepFailed

MAX_PDF = 128 << 20
"""Bytes of a PDF that is sent: GROBID takes no larger one, unless it is told to."""

FIELDS = {"consolidateCitations": "0", "includeRawCitations": "1"}
"""It asks no other service about the references: those are under our limits."""

VERSION_SECONDS = 5.0


def ask(base: str, pdf: Path, deadline: float, http: HttpClient, signal: AbortSignal) -> bytes:
    """GROBID's answer about this file, within so many seconds.

    Raises StepFailed: as in `http.failure`, `bad_answer` for an empty one, `resource_limit` for a file
    that is too large.
    """
    if pdf.stat().st_size > MAX_PDF:
        raise StepFailed("resource_limit", f"the PDF is larger than {MAX_PDF >> 20} MB")
    reply = post_file(f"{base.rstrip('/')}/api/processReferences", pdf, FIELDS, deadline, http, signal)
    return body_of(reply)


def is_busy(failure: StepFailed) -> bool:
    """Whether it was 503, which GROBID answers while all its engines are taken; a 500 would come again."""
    return failure.kind == "server_error" and " answered 503" in failure.message


def version(base: str, http: HttpClient, signal: AbortSignal) -> str:
    """The version that the server states; "" if it does not."""
    try:
        reply = get(f"{base.rstrip('/')}/api/version", {}, VERSION_SECONDS, http, signal)
    except StepFailed:
        return ""
    return version_in(reply.body[:200].decode("utf-8", "replace"))


def body_of(reply: Reply) -> bytes:
    if reply.moved_to:
        raise StepFailed("refused_address", "it redirects: set SLUICE_GROBID_URL to its new address")
    if not reply.body:
        raise StepFailed("bad_answer", "it found no references")
    return reply.body
