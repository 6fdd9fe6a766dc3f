"""The step that has a GROBID server read the references of a paper, where one is configured.

Our own reading is stored before, and stays where GROBID does not answer: no failure of it holds a paper up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from celery import shared_task

from pipeline import files
from pipeline.config import pipeline_settings
from pipeline.models import Document
from pipeline.steps.extract.reference import Reference
from pipeline.steps.extract.references import References
from pipeline.steps.grobid import NAME, service
from pipeline.steps.grobid.tei import with_pages
from pipeline.steps.pdf.text_sandbox import read_in_child
from pipeline.steps.resolve.sources.source import limit_of
from pipeline.tasks.documents import done, load
from pipeline.tasks.http_client import http_client
from pipeline.tasks.pages import references_file, references_to_look_up, stored_records
from pipeline.tasks.text_limits import text_limits
from queuemgr import Done, Failed, LeasedTask, Result, Snoozed, StepFailed, Work

LIMIT = limit_of(NAME)

MOST_FAILURES = 3
"""Requests about one paper, after which our own reading stays."""

PAUSE = 5.0
"""Seconds before GROBID is asked again, as its documentation says for 503: all its engines are busy."""

LONGEST_WAIT = 600.0
"""Seconds that a paper waits because GROBID asks for it."""

PASSING = ("rate_limited", "network")
"""Failures after which it is asked again, as when it is busy; the others would come again."""

BY_OCR = "OCR has read pages of the paper, and GROBID reads the text layer only"


@shared_task(base=LeasedTask, name="papers.grobid")
def grobid_step(work: Work) -> Result:
    """Store GROBID's reading of the references, or why there is none."""
    document = load(work)
    if not pipeline_settings().grobid_url or not files.exists(document.pdf):
        return Done(_context())
    if (document.pages_by or {}).get("ocr"):
        return done(document, _context(), references_by=_kept(document, BY_OCR))
    try:
        entries, version = _read(work, document)
    except StepFailed as failure:
        if failure.kind == "storage":
            raise
        return _failed(work, document, failure)
    own = list(map(Reference.of_record, stored_records(document.references_file)))
    return _stored(work, document, with_pages(entries, own), version)


def _read(work: Work, document: Document) -> tuple[list[Reference], str]:
    """The entries and the version of GROBID; raises StepFailed."""
    config, http = pipeline_settings(), http_client()
    with files.on_disk(document.pdf) as pdf:
        answer = service.ask(config.grobid_url, pdf, config.grobid_timeout, http, work.signal)
    text = answer.decode("utf-8", "replace")
    read = read_in_child("tei", text_limits(), work.signal, text=text)
    if problem := read["problem"]:
        raise StepFailed("bad_answer", problem)
    if not read["entries"]:
        raise StepFailed("bad_answer", "it found no references")
    version = read["version"] or service.version(config.grobid_url, http, work.signal)
    return list(map(Reference.of_record, read["entries"])), version


def _failed(work: Work, document: Document, failure: StepFailed) -> Result:
    """Ask again what may pass; else our own reading stays, and the reason is stored."""
    failures = int(work.inputs.get("grobid_failures") or 0) + 1
    refused = failure.kind == "rate_limited"
    wait = failure.retry_after or 0
    service_result = Failed(failure.kind, failure.message, failure.retry_after) if refused else None
    passes = failure.kind in PASSING or service.is_busy(failure)
    if passes and failures < MOST_FAILURES and wait <= LONGEST_WAIT:
        pause = 0 if refused else max(PAUSE, wait)
        return Snoozed(
            pause, f"GROBID: {failure.message}", {"grobid_failures": failures}, service_result=service_result
        )
    reason = f"GROBID was asked {failures} times: " * (failures > 1) + failure.message
    kept = done(document, _context(), references_by=_kept(document, reason))
    return replace(kept, service_result=service_result)


def _kept(document: Document, reason: str) -> dict[str, Any]:
    """Who has read the references, and why GROBID has not."""
    return {**(document.references_by or {}), "reason": reason[:500]}


def _stored(work: Work, document: Document, entries: list[Reference], version: str) -> Done:
    """GROBID's entries, and how many we have read ourselves."""
    found = References(len(entries), document.references_style, "", tuple(entries))
    by = {"method": f"read by GROBID {version}".rstrip(), "printed": document.references}
    of_ours = (document.references_by or {}).get("problem")
    problem = document.problem.replace(of_ours, "").strip() if of_ours else document.problem
    return done(
        document,
        _context() | references_to_look_up(work, found),
        references=len(entries),
        references_file=references_file(work, found, document.file_stem),
        references_by=by,
        problem=problem,
    )


def _context() -> dict[str, Any]:
    return {"grobid": False, "grobid_failures": 0}
