"""One Celery task per step: load, do the plain step, say what to store. No connection is held while
a step works; what it found is stored in the transaction that ends its lease."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from celery import shared_task
from django.db import connection
from django.utils import timezone

from pipeline import files
from pipeline.knobs import pipeline_knobs
from pipeline.models import Document
from pipeline.steps.addresses import shown
from pipeline.steps.analyse import AnalyseOptions, Analysis, analyse
from pipeline.steps.extract import ExtractOptions, PageText, extract, letters, with_page_marks
from pipeline.steps.fetch import Fetched, FetchOptions, adopt, fetch
from pipeline.steps.http import HttpClient, HttpOptions, shared
from pipeline.steps.identify import host_key, identify
from pipeline.steps.llm import Endpoint
from pipeline.steps.ocr import OcrOptions, OcrResult, ocr
from pipeline.steps.references import find_references
from pipeline.steps.report import ReportFacts, render_json, render_markdown
from pipeline.steps.resolve import ResolveOptions, resolve
from queuemgr.errors import StepFailed
from queuemgr.leased_task import LeasedTask, Work
from queuemgr.outcomes import Done, Failed


@shared_task(base=LeasedTask, name="papers.resolve")
def resolve_step(work: Work) -> Done:
    """Find where the PDF is."""
    document = _load(work)
    if files.exists(document.pdf):
        return Done()
    knobs = pipeline_knobs()
    options = ResolveOptions(
        knobs.contact_email, knobs.arxiv_url, knobs.unpaywall_url, knobs.crossref_url
    )
    found = resolve(identify(document.source), options, _http(), work.signal)
    host = host_key(found.pdf_url) if found.pdf_url else ""
    return _done(
        document,
        {"host_key": host},
        pdf_url=found.pdf_url or "",
        local_path=found.path or "",
        title=found.title[:500],
    )


@shared_task(base=LeasedTask, name="papers.fetch")
def fetch_step(work: Work) -> Done:
    """Have the PDF on our storage: downloaded, or copied from a local file, or there already."""
    document = _load(work)
    if files.exists(document.pdf):
        return Done()
    fetched = _fetched(document, work)
    name = files.promote(work, fetched.path, f"pdf/{fetched.sha256[:2]}/{fetched.sha256}.pdf")
    return _done(document, pdf=name, sha256=fetched.sha256, size=fetched.size)


@shared_task(base=LeasedTask, name="papers.extract")
def extract_step(work: Work) -> Done:
    """Read the text layer, page by page."""
    document, knobs = _load(work), pipeline_knobs()
    options = ExtractOptions(knobs.page_seconds, knobs.document_seconds, knobs.extract_memory)
    with files.on_disk(document.pdf) as pdf:
        read = extract(pdf, options, work.signal)
    context = {"pages_without_text": list(read.without_text)}
    read_columns = {"pages": read.page_count, "problem": read.problem}
    return _pages_done(work, document, read.pages, context, read_columns)


@shared_task(base=LeasedTask, name="papers.ocr")
def ocr_step(work: Work) -> Done:
    """Read the pages without text by OCR. What it cannot read is named, and fails no other page."""
    document = _load(work)
    pages = {page.number: page for page in _read_pages(document)}
    options = OcrOptions(threads=pipeline_knobs().ocr_threads)
    with files.on_disk(document.pdf) as pdf:
        try:
            read = ocr(pdf, work.given["pages_without_text"], options, work.signal)
        except StepFailed as error:
            if not _has_text(pages.values()):
                raise
            read = OcrResult((), dict.fromkeys(work.given["pages_without_text"], error.message), ())
    pages |= {page.number: page for page in read.pages}
    pages |= {n: PageText(n, "", "blank") for n in read.blank}
    pages |= {n: PageText(n, pages[n].text if n in pages else "", "failed") for n in read.failed}
    problem = " ".join(filter(None, (document.problem, _ocr_problem(read))))
    return _pages_done(
        work, document, sorted(pages.values(), key=_number), {}, {"problem": problem}
    )


@shared_task(base=LeasedTask, name="papers.analyse")
def analyse_step(work: Work) -> Done | Failed:
    """Title, summary, keywords and contributions: by the model, or locally without one."""
    document = _load(work)
    asked: list[int] = []

    def about_to_ask(number: int) -> None:
        asked.append(number)
        work.spend()
        connection.close()

    options = AnalyseOptions(_endpoint(), before_request=about_to_ask)
    try:
        analysed = analyse(_text(document), document.title, options, work.signal)
    except StepFailed as error:
        cost = len(asked) if options.endpoint else None
        return Failed(error.kind, error.message, error.retry_after, cost, error.limit)
    done = _done(
        document,
        title=document.title or analysed.analysis.title[:500],
        analysis=analysed.analysis.model_dump(),
        method=analysed.method,
        requests=analysed.requests,
    )
    cost = analysed.requests if options.endpoint else None
    return Done(done.context, done.store, cost)


@shared_task(base=LeasedTask, name="papers.report")
def report_step(work: Work) -> Done:
    """Write the report, for people and for programs."""
    document = _load(work)
    facts, stem = _facts(document), document.file_stem
    markdown = files.promote_text(work, render_markdown(facts), f"reports/{stem}.md")
    as_json = files.promote_text(work, render_json(facts), f"reports/{stem}.json")
    return _done(document, report_markdown=markdown, report_json=as_json)


def _load(work: Work) -> Document:
    """The document, with no connection kept while the step works on it."""
    document = Document.objects.get(key=work.key)
    connection.close()
    return document


def _done(document: Document, context: dict[str, Any] | None = None, **columns: Any) -> Done:
    """Done, storing these columns when the lease ends."""
    return Done(context or {}, store=lambda: _store(document.pk, columns))


def _store(pk: int, columns: dict[str, Any]) -> None:
    Document.objects.filter(pk=pk).update(**columns)


def _http() -> HttpClient:
    knobs = pipeline_knobs()
    contact = f" (mailto:{knobs.contact_email})" if knobs.contact_email else ""
    return shared(
        HttpOptions(
            knobs.http_max_conn,
            knobs.http_keepalive,
            knobs.http_timeout,
            f"Sluicegate/0.1{contact}",
        )
    )


def _fetched(document: Document, work: Work) -> Fetched:
    knobs = pipeline_knobs()
    options = FetchOptions(
        knobs.fetch_max_bytes, knobs.fetch_deadline, knobs.allow_private_addresses
    )
    if document.local_path:
        return adopt(Path(document.local_path), files.scratch(), options, work.signal)
    return fetch(document.pdf_url, files.scratch(), options, _http(), work.signal)


def _pages_done(
    work: Work,
    document: Document,
    pages: Iterable[PageText],
    context: dict[str, Any],
    columns: dict[str, Any],
) -> Done:
    """Store the pages read so far, their text as one, and what follows from it."""
    pages = list(pages)
    bare = context.get("pages_without_text")
    if not _has_text(pages) and not bare:
        raise StepFailed("no_text", columns.get("problem") or "No page of it has any text.")
    stem, text = document.file_stem, with_page_marks(pages)
    found = find_references(text)
    as_lines = "".join(json.dumps(_as_plain(page), ensure_ascii=False) + "\n" for page in pages)
    return _done(
        document,
        context,
        pages_file=files.promote_text(work, as_lines, f"pages/{stem}.jsonl"),
        text=files.promote_text(work, text, f"text/{stem}.txt"),
        pages_by=_count_by_source(pages),
        references=found.count,
        references_style=found.style[:40],
        **columns,
    )


def _as_plain(page: PageText) -> dict[str, Any]:
    return {"number": page.number, "text": page.text, "source": page.source}


def _number(page: PageText) -> int:
    return page.number


def _has_text(pages: Iterable[PageText]) -> bool:
    return any(letters(page.text) for page in pages)


def _count_by_source(pages: list[PageText]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for page in pages:
        counts[page.source] = counts.get(page.source, 0) + 1
    return counts


def _read_pages(document: Document) -> list[PageText]:
    with document.pages_file.open("rb") as lines:
        return [PageText(**json.loads(line)) for line in lines.read().decode().split("\n") if line]


def _text(document: Document) -> str:
    with document.text.open("rb") as stored:
        return str(stored.read().decode("utf-8"))


def _ocr_problem(read: OcrResult) -> str:
    if not read.failed:
        return ""
    first = next(iter(read.failed.values()))
    return f"OCR could not read page(s) {', '.join(map(str, sorted(read.failed)))}: {first}"


def _endpoint() -> Endpoint | None:
    knobs = pipeline_knobs()
    if not knobs.llm_base_url:
        return None
    key = knobs.llm_api_key.get_secret_value()
    return Endpoint(knobs.llm_base_url, knobs.llm_model, key, knobs.llm_timeout)


def _facts(document: Document) -> ReportFacts:
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
