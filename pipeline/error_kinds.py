"""The error kinds of papers, in addition to the generic ones of the queue."""

from __future__ import annotations

from collections.abc import Mapping

from queuemgr import Policy, no_retry

ERROR_KINDS: Mapping[str, Policy] = {
    "not_pdf": no_retry("what was fetched is not a PDF"),
    "encrypted": no_retry("the PDF requires a password"),
    "damaged": no_retry("the PDF cannot be read"),
    "no_pages": no_retry("the PDF has no pages"),
    "no_text": no_retry("neither the text layer nor OCR gave any text"),
    "no_engine": no_retry("no OCR engine is installed on the worker"),
    "no_sandbox": no_retry("the worker's kernel cannot confine what reads PDFs, and the settings require it"),
    "refused_address": no_retry("the address is not allowed: private, local, or not http(s)"),
    "too_long": no_retry("the model refuses the prompt as too long, also with smaller chunks"),
    "truncated": no_retry("the model's answer was truncated at its length limit, also at twice the length"),
    "content_filtered": no_retry("the model refused, or a content filter blocked request or answer"),
    "schema_missing": no_retry("the schema of what to extract is no longer stored"),
    "refused_file": no_retry("the file is a link, a pipe, a device or another owner's"),
    "unresolvable": no_retry("no source offers a PDF for this identifier"),
}
"""None is retried: the document or the configuration must change first."""
