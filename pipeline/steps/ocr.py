"""Text of scanned pages by the local engine: no key, no network, no file written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pipeline.steps.extract import PROTOCOL_BYTES, PageText, clean
from pipeline.steps.pdf_sandbox import Limits, Line, Reading, read_pages, told
from queuemgr.abort import AbortSignal
from queuemgr.errors import StepFailed

CHILD = Path(__file__).with_name("pdf_ocr_child.py")

NEEDED = ("pypdfium2", "rapidocr", "onnxruntime")


@dataclass(frozen=True)
class OcrOptions:
    """Limits of the local engine. A page takes 3 to 9 s on one thread of a small machine.

    Seconds are wall time. `memory_bytes` is the child's address space, of which onnxruntime
    maps 1.8 to 2.3 GiB. `longest_px` is the rendered page's longest side; more reads no better.
    """

    page_seconds: float = 120.0
    document_seconds: float = 1800.0
    memory_bytes: int = 4 << 30
    threads: int = 1
    longest_px: int = 1600
    max_chars: int = 5_000_000


@dataclass(frozen=True)
class OcrResult:
    """`pages` were recognised, `failed` says why not, `blank` have no ink and were not tried."""

    pages: tuple[PageText, ...]
    failed: dict[int, str]
    blank: tuple[int, ...]


def ocr(pdf: Path, pages: Sequence[int], options: OcrOptions, signal: AbortSignal) -> OcrResult:
    """Recognise `pages` (numbered from 1) of `pdf`, in that order.

    A page that hangs or ends its reader is in `failed`, the others are still read. Raises
    `StepFailed` (`encrypted`, `damaged`, `resource_limit`, `crashed`, or `bad_request` when the
    engine is not installed), and `Aborted` when the signal is set.
    """
    require_engine()
    order = {
        "pdf": str(pdf.resolve()),
        "threads": options.threads,
        "longest_px": options.longest_px,
    }
    limits = Limits(
        options.page_seconds,
        options.document_seconds,
        options.memory_bytes,
        output_bytes=6 * options.max_chars + PROTOCOL_BYTES,
        threads=options.threads,
    )
    reading = read_pages(CHILD, order, limits, signal, pages=pages)
    refuse_unopened(reading)
    return result(reading, pages)


def require_engine() -> None:
    """Raise `StepFailed` with the remedy when the optional packages are missing."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise StepFailed(
            "bad_request",
            f"The local OCR engine is not installed ({', '.join(missing)} missing): "
            "`pip install sluicegate[ocr]`, or configure a remote one.",
        )


def refuse_unopened(reading: Reading) -> None:
    """Raise `StepFailed` when PDFium could not so much as open the document."""
    if reading.refused is not None and reading.refused["refused"] == "encrypted":
        raise StepFailed("encrypted", "The PDF asks for a password, so its pages cannot be drawn.")
    if reading.refused is not None:
        raise StepFailed("damaged", "The PDF is damaged: its pages cannot be drawn for OCR.")
    if reading.count is None and reading.stopped.reason:
        kind = "crashed" if reading.stopped.reason == "crashed" else "resource_limit"
        raise StepFailed(kind, f"The PDF could not be opened for OCR: {told(reading.stopped)}.")


def result(reading: Reading, pages: Sequence[int]) -> OcrResult:
    """Sort every page asked for into exactly one of the three."""
    read: list[PageText] = []
    failed: dict[int, str] = {}
    blank: list[int] = []
    for number in dict.fromkeys(pages):
        line = reading.lines.get(number)
        if line is None:
            ending = reading.failed.get(number, reading.stopped)
            failed[number] = told(ending) or "no answer came"
        elif line.get("blank"):
            blank.append(number)
        elif reason := nothing_read(line):
            failed[number] = reason
        else:
            read.append(PageText(number, clean(str(line["text"]))[0], "ocr"))
    return OcrResult(tuple(read), failed, tuple(blank))


def nothing_read(line: Line) -> str:
    """Why a page with ink gave nothing; "" when it gave text."""
    if error := line.get("error"):
        return f"it could not be drawn or recognised ({error})"
    return "" if str(line.get("text", "")).strip() else "it has ink, but no text was recognised"
