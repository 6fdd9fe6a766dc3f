"""Files of which nothing could be read: the kind of error each is, and a sentence with a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.steps.pdf.sandbox import Reading, told
from queuemgr import StepFailed

MAGIC_WITHIN = 1024
"""Bytes in which `%PDF-` must appear; readers accept it off byte 0, and such files exist."""

LIMITS = ("page_seconds", "document_seconds", "output_bytes", "memory")
"""Endings that say the file asked for more than it may have."""

ENCRYPTED = (
    "The PDF asks for a password. Remove it (for example with `qpdf --decrypt`) and submit "
    "the file again."
)

NEEDS_CRYPTO = (
    "The PDF is encrypted with AES, which needs another package: `pip install 'pypdf[crypto]'`"
)

DAMAGED = (
    "The PDF is damaged and could not be opened ({said}). Fetch it again, or repair it (for "
    "example with `qpdf in.pdf out.pdf`)."
)

NO_PAGES = "The PDF has no pages. It may have been cut off or written wrongly: fetch it again."

CRASHED = "The PDF could not be read ({said}). The file is likely at fault."

TOO_DEAR = (
    "No page of the PDF could be read ({said}; limits: {allowed}). It may be built to exhaust "
    "readers; if you trust it, raise the limits."
)


def refuse_other_files(pdf: Path) -> None:
    """Look for `%PDF-` ourselves: a web page named .pdf deserves a better answer than damaged."""
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


def refuse_unread(readings: dict[str, Reading], allowed: str) -> None:
    """Raise `StepFailed` when no engine read a page. `readings` by the engines' names, those asked
    only; `allowed` are the limits in words."""
    if any(reading.lines for reading in readings.values()):
        return
    said = "; ".join(f"{name}: {words}" for name, words in accounts(readings))
    raise StepFailed(*verdict(list(readings.values()), said, allowed))


def accounts(readings: dict[str, Reading]) -> Iterator[tuple[str, str]]:
    """What each engine had to say against the file."""
    for name, reading in readings.items():
        if reading.refused is not None:
            yield name, str(reading.refused.get("detail"))
        elif words := told(next(iter(reading.failed.values()), reading.stopped)):
            yield name, words


def verdict(readings: list[Reading], said: str, allowed: str) -> tuple[str, str]:
    """Kind and sentence; what stands first here explains most."""
    refusals = {str(reading.refused["refused"]) for reading in readings if reading.refused}
    endings = {reading.stopped.reason for reading in readings}
    endings |= {ending.reason for reading in readings for ending in reading.failed.values()}
    if "encrypted" in refusals:
        return "encrypted", ENCRYPTED
    if "needs_crypto" in refusals:
        return "encrypted", NEEDS_CRYPTO
    if endings.intersection(LIMITS) or "limit" in refusals:
        return "resource_limit", TOO_DEAR.format(said=said, allowed=allowed)
    if any(reading.count == 0 for reading in readings):
        return "no_pages", NO_PAGES
    if "crashed" in endings and "damaged" not in refusals:
        return "crashed", CRASHED.format(said=said)
    return "damaged", DAMAGED.format(said=said)
