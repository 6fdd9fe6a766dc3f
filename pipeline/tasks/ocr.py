"""The step that reads the pages without a text layer."""

from __future__ import annotations

from operator import attrgetter

from celery import shared_task

from pipeline import files
from pipeline.knobs import pipeline_knobs
from pipeline.steps.extract import PageText
from pipeline.steps.ocr import OcrOptions, OcrResult, ocr
from pipeline.tasks.documents import load
from pipeline.tasks.pages import has_text, pages_done, read_pages
from queuemgr.errors import StepFailed
from queuemgr.leased_task import LeasedTask, Work
from queuemgr.outcomes import Done


@shared_task(base=LeasedTask, name="papers.ocr")
def ocr_step(work: Work) -> Done:
    """Read the pages without text by OCR. What it cannot read is named, and fails no other page."""
    document = load(work)
    pages = {page.number: page for page in read_pages(document)}
    options = OcrOptions(threads=pipeline_knobs().ocr_threads)
    with files.on_disk(document.pdf) as pdf:
        try:
            read = ocr(pdf, work.given["pages_without_text"], options, work.signal)
        except StepFailed as error:
            if not has_text(pages.values()):
                raise
            read = OcrResult((), dict.fromkeys(work.given["pages_without_text"], error.message), ())
    pages |= {page.number: page for page in read.pages}
    pages |= {n: PageText(n, "", "blank") for n in read.blank}
    pages |= {n: PageText(n, pages[n].text if n in pages else "", "failed") for n in read.failed}
    problem = " ".join(filter(None, (document.problem, _problem(read))))
    in_order = sorted(pages.values(), key=attrgetter("number"))
    return pages_done(work, document, in_order, {}, {"problem": problem})


def _problem(read: OcrResult) -> str:
    if not read.failed:
        return ""
    first = next(iter(read.failed.values()))
    return f"OCR could not read page(s) {', '.join(map(str, sorted(read.failed)))}: {first}"
