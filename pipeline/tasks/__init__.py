"""One Celery task per step: load the document, run the plain step, return what to store.

No database connection is held while a step works; its result is stored in the transaction that ends
its lease.
"""

from pipeline.tasks.analyse import analyse_step
from pipeline.tasks.extract import extract_step
from pipeline.tasks.fetch import fetch_step
from pipeline.tasks.grobid import grobid_step
from pipeline.tasks.metadata import metadata_step
from pipeline.tasks.ocr import ocr_step
from pipeline.tasks.references import references_step
from pipeline.tasks.report import report_step
from pipeline.tasks.resolve import resolve_step

__all__ = [
    "analyse_step", "extract_step", "fetch_step", "grobid_step", "metadata_step", "ocr_step",
    "references_step", "report_step", "resolve_step",
]  # fmt: skip
