"""The step that finds where the PDF is."""

from __future__ import annotations

from celery import shared_task

from pipeline import files
from pipeline.knobs import pipeline_knobs
from pipeline.steps.identify import host_key, identify
from pipeline.steps.resolve import ResolveOptions, resolve
from pipeline.tasks.documents import done, load
from pipeline.tasks.http_client import http_client
from queuemgr.leased_task import LeasedTask, Work
from queuemgr.outcomes import Done


@shared_task(base=LeasedTask, name="papers.resolve")
def resolve_step(work: Work) -> Done:
    """Find where the PDF is."""
    document = load(work)
    if files.exists(document.pdf):
        return Done()
    knobs = pipeline_knobs()
    options = ResolveOptions(
        knobs.contact_email, knobs.arxiv_url, knobs.unpaywall_url, knobs.crossref_url
    )
    found = resolve(identify(document.source), options, http_client(), work.signal)
    host = host_key(found.pdf_url) if found.pdf_url else ""
    return done(
        document,
        {"host_key": host},
        pdf_url=found.pdf_url or "",
        local_path=found.path or "",
        title=found.title[:500],
    )
