"""Files of which nothing could be read: the error kind, and a message with a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.steps.pdf.sandbox import ReadResult, describe
from queuemgr import StepFailed

MAGIC_WITHIN = 1024
"""Bytes within which `%PDF-` must appear; readers accept it after byte 0, and such files exist."""

LIMITS = ("page_seconds", "document_seconds", "output_bytes", "memory")
"""Endings by which the file exceeded a limit."""

ENCRYPTED = (
    "The PDF requires a password. Remove it (for example with `qpdf --decrypt`) and submit the file again."
)

NEEDS_CRYPTO = "The PDF is encrypted with AES, which needs another package: `pip install 'pypdf[crypto]'`"

DAMAGED = (
    "The PDF is damaged and could not be opened ({details}). Fetch it again, or repair it (for "
    "example with `qpdf in.pdf out.pdf`)."
)

NO_PAGES = "The PDF has no pages. It may have been cut off or written wrongly: fetch it again."

CRASHED = "The PDF could not be read ({details}). The file is probably at fault."

TOO_EXPENSIVE = (
    "No page of the PDF could be read ({details}; limits: {allowed}). It may be built to exhaust "
    "readers; if you trust it, raise the limits."
)


def refuse_other_files(pdf: Path) -> None:
    """Look for `%PDF-`, so that a web page named .pdf is not reported as a damaged PDF."""
    try:
        with pdf.open("rb") as file:
            head = file.read(MAGIC_WITHIN)
    except OSError as error:
        raise StepFailed("storage", f"The PDF could not be opened: {error.strerror}.") from error
    if b"%PDF-" not in head:
        raise StepFailed("not_pdf", f"This is not a PDF but {kind_of(head)}. Check its address.")


def kind_of(head: bytes) -> str:
    start = head.lstrip().lower()
    if not start:
        return "an empty file"
    return "a web page" if start.startswith((b"<!doctype html", b"<html")) else "another file"


def refuse_unread(readings: dict[str, ReadResult], allowed: str) -> None:
    """Raise `StepFailed` if no engine read a page. `readings`: by name of the engines that were used;
    `allowed`: the limits in words."""
    if any(reading.lines for reading in readings.values()):
        return
    details = "; ".join(f"{name}: {reason}" for name, reason in reasons(readings))
    raise StepFailed(*verdict(list(readings.values()), details, allowed))


def reasons(readings: dict[str, ReadResult]) -> Iterator[tuple[str, str]]:
    """Why each engine could not read the file."""
    for name, reading in readings.items():
        if reading.refused is not None:
            yield name, str(reading.refused.get("detail"))
        elif reason := describe(next(iter(reading.failed.values()), reading.stopped)):
            yield name, reason


def verdict(readings: list[ReadResult], details: str, allowed: str) -> tuple[str, str]:
    """Error kind and message; the most specific one wins."""
    refusals = {str(reading.refused["refused"]) for reading in readings if reading.refused}
    endings = {reading.stopped.reason for reading in readings}
    endings |= {ending.reason for reading in readings for ending in reading.failed.values()}
    if "encrypted" in refusals:
        return "encrypted", ENCRYPTED
    if "needs_crypto" in refusals:
        return "encrypted", NEEDS_CRYPTO
    if endings.intersection(LIMITS) or "limit" in refusals:
        return "resource_limit", TOO_EXPENSIVE.format(details=details, allowed=allowed)
    if any(reading.count == 0 for reading in readings):
        return "no_pages", NO_PAGES
    if "crashed" in endings and "damaged" not in refusals:
        return "crashed", CRASHED.format(details=details)
    return "damaged", DAMAGED.format(details=details)
