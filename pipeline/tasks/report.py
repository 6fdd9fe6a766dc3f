"""The step that writes the report, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from celery import shared_task
from django.utils import timezone

from pipeline import files, storage
from pipeline.models import Document
from pipeline.paper_metadata import fields_of
from pipeline.steps.analyse.analyse import Analysis
from pipeline.steps.extract.extract import clean
from pipeline.steps.http.shown import shown
from pipeline.steps.metadata.candidates import Candidate
from pipeline.steps.report.json_report import render_json
from pipeline.steps.report.markdown_report import render_markdown
from pipeline.steps.report.report import PagesRead, ReportFacts, group_pages, source_lookup
from pipeline.steps.report.stated_fields import Reference, StatedField, reference_of
from pipeline.tasks.documents import done, load
from pipeline.web.report_page import render_html
from queuemgr import Done, LeasedTask, Work

MAX_REFERENCES, REFERENCE_CHARACTERS = 5_000, 1_000_000
"""Of the references, those that a report shows; all of them are in the file of references."""


@shared_task(base=LeasedTask, name="papers.report")
def report_step(work: Work) -> Done:
    """Write the report in its three formats; all are rendered before the first is stored."""
    document = load(work)
    facts, stem = report_facts(document), document.file_stem
    rendered = []
    for render in (render_markdown, render_json, render_html):
        work.signal.raise_if_aborted()
        rendered.append(render(facts))
    markdown, json_text, page = rendered
    return done(
        document,
        report_markdown=files.promote_text(work, markdown, f"reports/{stem}.md"),
        report_json=files.promote_text(work, json_text, f"reports/{stem}.json"),
        report_html=files.promote_text(work, page, f"reports/{stem}.html"),
    )


def report_facts(document: Document) -> ReportFacts:
    """The facts about a document that its report shows."""
    return ReportFacts(
        key=document.key,
        source=shown(document.pdf_url) if document.pdf_url else document.source_shown,
        title=document.title or str(document.analysis.get("title", "")),
        pages=document.pages or 0,
        references=document.references,
        references_style=document.references_style,
        references_by=document.references_by or {},
        analysis=Analysis.model_validate(document.analysis),
        method=document.method,
        requests=document.requests,
        sha256=document.sha256,
        created=timezone.now(),
        problem=document.problem,
        pages_by=document.pages_by,
        authors=tuple(map(str, document.authors)),
        year=document.year,
        licence=document.licence,
        open_access=document.open_access,
        doi=document.doi or _after("doi:", document.key),
        arxiv_id=document.arxiv_id or _after("arxiv:", document.key),
        fetched_from=shown(document.fetched_from) if document.fetched_from else "",
        size=document.size,
        characters=document.characters,
        read=_read(document),
        reference_list=tuple(_shown(map(reference_of, _records(document.references_file)))),
        lookups=tuple(source_lookup(record) for record in document.lookups if isinstance(record, dict)),
        metadata=tuple(stated_fields(document)),
        files=tuple(_files(document)),
        prompt_version=document.prompt_version,
        prompt_hash=document.prompt_hash,
        extraction_schema=document.extraction_schema.text if document.extraction_schema else "",
        prompt_tokens=document.prompt_tokens,
        completion_tokens=document.completion_tokens,
        cached_tokens=document.cached_tokens,
        cost=document.cost,
    )


def _files(document: Document) -> Iterator[tuple[str, str]]:
    """What a web server shows beside the report."""
    if document.pages_file:
        yield "Page by page", "pages/1"
    for label, kind, stored in (("PDF", "pdf", document.pdf), ("Text", "text", document.text)):
        if stored:
            yield label, kind
    yield "Markdown", "report"
    yield "JSON", "json"


def stated_fields(document: Document) -> Iterator[StatedField]:
    """Its metadata, with the sources and what differs."""
    for field in fields_of(document).values():
        yield replace(_stated(field.chosen), conflicts=tuple(map(_stated, field.conflicts)))


def _stated(candidate: Candidate) -> StatedField:
    return StatedField(candidate.field, candidate.value, candidate.source, candidate.confidence)


def _after(prefix: str, key: str) -> str:
    """The identifier in a key; "" for keys of another kind."""
    return key.removeprefix(prefix) if key.startswith(prefix) else ""


def _read(document: Document) -> tuple[PagesRead, ...]:
    pages = _records(document.pages_file)
    return group_pages((p["number"], p["source"], clean(p.get("reason", "")).text) for p in pages)


def _shown(references: Iterable[Reference]) -> Iterator[Reference]:
    """The first of them, as many as a page can show: a crafted document has hundreds of thousands."""
    room = REFERENCE_CHARACTERS
    for reference in islice(references, MAX_REFERENCES):
        room -= reference.characters
        if room < 0:
            return
        yield reference


def _records(file: Any) -> Iterator[dict[str, Any]]:
    """A stored file's JSON lines; none if there is no file."""
    if not files.exists(file):
        return
    with storage.opened(file.name) as lines:
        for line in lines:
            yield json.loads(line)
