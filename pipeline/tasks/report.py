"""The step that writes the report, for people and for programs."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from pipeline import files
from pipeline.models import Document
from pipeline.steps.addresses import shown
from pipeline.steps.analyse import Analysis
from pipeline.steps.report import ReportFacts, render_json, render_markdown
from pipeline.tasks.documents import done, load
from queuemgr.leased_task import LeasedTask, Work
from queuemgr.outcomes import Done


@shared_task(base=LeasedTask, name="papers.report")
def report_step(work: Work) -> Done:
    """Write the report, for people and for programs."""
    document = load(work)
    facts, stem = report_facts(document), document.file_stem
    markdown = files.promote_text(work, render_markdown(facts), f"reports/{stem}.md")
    as_json = files.promote_text(work, render_json(facts), f"reports/{stem}.json")
    return done(document, report_markdown=markdown, report_json=as_json)


def report_facts(document: Document) -> ReportFacts:
    """What a report says of a document, as it is known now."""
    return ReportFacts(
        key=document.key,
        source=shown(document.pdf_url) if document.pdf_url else document.source,
        title=document.title or str(document.analysis.get("title", "")),
        pages=document.pages or 0,
        references=document.references,
        references_style=document.references_style,
        analysis=Analysis.model_validate(document.analysis),
        method=document.method,
        requests=document.requests,
        sha256=document.sha256,
        created=timezone.now(),
        problem=document.problem,
        pages_by=document.pages_by,
    )
