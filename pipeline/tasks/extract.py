"""The step that reads the text layer."""

from __future__ import annotations

from celery import shared_task

from pipeline import files
from pipeline.config import pipeline_settings
from pipeline.sandbox_required import refuse_without_sandbox
from pipeline.steps.extract.extract import ExtractOptions, extract
from pipeline.tasks.documents import load
from pipeline.tasks.pages import pages_done
from queuemgr import Done, LeasedTask, Work
from queuemgr.steptools.process_lanes import lane_slot


@shared_task(base=LeasedTask, name="papers.extract")
def extract_step(work: Work) -> Done:
    """Read the text layer, page by page. Pages without text go to the OCR step."""
    document, config = load(work), pipeline_settings()
    refuse_without_sandbox()
    options = ExtractOptions(
        config.page_seconds, config.document_seconds, config.extract_memory, config.extract_pages
    )
    with lane_slot("cpu", work.signal), files.on_disk(document.pdf) as pdf:
        read = extract(pdf, options, work.signal)
    if config.force_ocr or work.inputs.get("force_ocr"):
        read = read.doubted
    context = {"pages_without_text": list(read.without_text)}
    read_columns = {"pages": read.page_count, "problem": read.document_problem}
    return pages_done(work, document, read.pages, context, read_columns, read.info)
