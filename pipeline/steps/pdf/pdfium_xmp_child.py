"""Text of each page by PDFium, as `pdfium_child.py`, and the document's metadata with its XMP, by pypdf; runs
inside the sandbox.

For documents that may have XMP only: pypdf takes as long to be imported as a short paper to be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.steps.pdf import pdfium_child, pypdf_child


def lines(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Those of `pdfium_child.lines`; pypdf's metadata goes before PDFium's."""
    for line in pdfium_child.lines(job):
        if "info" in line:
            line = {"info": line["info"] | pypdf_child.info_in(job["pdf"])}
        yield line
