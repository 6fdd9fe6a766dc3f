"""The kinds of failure only papers have, beside the generic ones of the queue."""

from __future__ import annotations

from collections.abc import Mapping

from queuemgr import Policy, no_retry

ERROR_KINDS: Mapping[str, Policy] = {
    "not_pdf": no_retry("what was fetched is not a PDF"),
    "encrypted": no_retry("the PDF asks for a password"),
    "damaged": no_retry("the PDF cannot be read"),
    "no_pages": no_retry("the PDF has no pages"),
    "no_text": no_retry("neither a text layer nor OCR gave any text"),
    "no_engine": no_retry("no OCR engine is installed where the step ran"),
    "refused_address": no_retry("the address may not be fetched: private, local, or not http(s)"),
    "too_long": no_retry("more text than the model takes at once, also when halved"),
    "cut_off": no_retry("the model's answer did not fit, also at twice the length"),
    "withheld": no_retry("the model refused to answer, or its answer was filtered"),
    "unresolvable": no_retry("no source offers a PDF for this identifier"),
}
"""None is tried again: the document, or the set-up, must change first."""
