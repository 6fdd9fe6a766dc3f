"""The limits of a child process that reads a document's text."""

from __future__ import annotations

from pipeline.config import pipeline_settings
from pipeline.steps.extract.extract import ExtractOptions
from pipeline.steps.pdf.sandbox import ResourceLimits, output_limit


def text_limits() -> ResourceLimits:
    """The seconds of a document and the memory of the children that read PDFs."""
    config = pipeline_settings()
    seconds = config.document_seconds
    return ResourceLimits(seconds, seconds, config.extract_memory, output_limit(ExtractOptions.max_chars))
