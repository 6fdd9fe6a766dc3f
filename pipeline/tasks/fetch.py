"""The step that brings the PDF to our storage."""

from __future__ import annotations

from pathlib import Path

from celery import shared_task

from pipeline import files
from pipeline.knobs import pipeline_knobs
from pipeline.models import Document
from pipeline.steps.fetch import Fetched, FetchOptions, adopt, fetch
from pipeline.tasks.documents import done, load
from pipeline.tasks.http_client import http_client
from queuemgr.leased_task import LeasedTask, Work
from queuemgr.outcomes import Done


@shared_task(base=LeasedTask, name="papers.fetch")
def fetch_step(work: Work) -> Done:
    """Have the PDF on our storage: downloaded, or copied from a local file, or there already."""
    document = load(work)
    if files.exists(document.pdf):
        return Done()
    fetched = _fetched(document, work)
    name = files.promote(work, fetched.path, f"pdf/{fetched.sha256[:2]}/{fetched.sha256}.pdf")
    return done(document, pdf=name, sha256=fetched.sha256, size=fetched.size)


def _fetched(document: Document, work: Work) -> Fetched:
    knobs = pipeline_knobs()
    options = FetchOptions(
        knobs.fetch_max_bytes, knobs.fetch_deadline, knobs.allow_private_addresses
    )
    if document.local_path:
        return adopt(Path(document.local_path), files.scratch(), options, work.signal)
    return fetch(document.pdf_url, files.scratch(), options, http_client(), work.signal)
