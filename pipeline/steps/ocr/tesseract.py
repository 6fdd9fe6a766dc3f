"""Pages read by an installed Tesseract: one process a page, killed with all it started."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pipeline.steps.extract.clean_text import clean
from pipeline.steps.ocr.page_map import Pacing, PageCallback, PageRequest, ignore_page, read_in_window
from pipeline.steps.ocr.rapidocr import LocalOptions
from pipeline.steps.ocr.tesseract_lines import text_of_page
from pipeline.steps.pdf.page_images_pool import SharedPageImages
from pipeline.steps.pdf.page_outcomes import PageOutcome, ParseError, PdfError, Timeout
from pipeline.steps.pdf.renderer import RenderOptions
from pipeline.steps.pdf.sandbox import child_environment
from queuemgr import AbortSignal
from queuemgr.steptools import process_state
from queuemgr.steptools.subprocess_group import ProgramFailed, run_program, status_name

PROGRAM = "tesseract"

LONGEST_PX = 3508
"""A4 at 300 dpi, the resolution Tesseract's models were trained for."""

LIST_SECONDS = 20.0

START = os.path.join(os.path.dirname(__file__), os.pardir, "confinement", "start.py")


def languages_installed() -> frozenset[str]:
    """The languages Tesseract can read; none if it is not installed or does not answer."""
    path = shutil.which(PROGRAM)
    return frozenset() if path is None else _listed(path)


@lru_cache(maxsize=4)
def _listed(path: str) -> frozenset[str]:
    try:
        done = subprocess.run(
            [path, "--list-langs"],
            capture_output=True, text=True, timeout=LIST_SECONDS, check=False, env=environment(),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(line.strip() for line in done.stdout.splitlines()[1:] if line.strip())


process_state.register(_listed.cache_clear)


def environment() -> dict[str, str]:
    """One thread a process: by default Tesseract uses four, which is slower."""
    own = {name: os.environ[name] for name in ("TESSDATA_PREFIX",) if name in os.environ}
    return {**child_environment(1), **own, "OMP_THREAD_LIMIT": "1"}


def confined(command: list[str]) -> list[str]:
    """The command of a program that is confined before it starts. A picture is what a stranger drew, and the
    program reads it by libraries of its own."""
    return [sys.executable, "-I", "-S", "-B", START, *command]


@dataclass(frozen=True)
class Tesseract:
    """How it is called. `languages` are joined by `+`; with `osd` it detects the page's orientation."""

    languages: str
    osd: bool
    page_seconds: float

    def command(self) -> list[str]:
        return [PROGRAM, "stdin", "stdout", "-l", self.languages, "--psm", "1" if self.osd else "3", "tsv"]

    async def read(self, request: PageRequest, images: SharedPageImages) -> str:
        """The text of a page. Raises `Timeout`, `PdfError` if it fails, `ParseError` if there is none."""
        assert request.picture is not None
        request.requests += 1
        try:
            async with asyncio.timeout(self.page_seconds):
                text = await self._run(request.picture.data)
        except TimeoutError:
            raise Timeout(
                "The page was not read: it exceeded the time limit of a page.",
                kind="resource_limit",
                retryable=False,
            ) from None
        except OSError as error:
            raise PdfError(f"Tesseract could not be run ({error.strerror}).") from None
        except ProgramFailed as failed:
            message = f"Tesseract could not read the page ({status_name(failed.status)})."
            raise PdfError(message, kind="crashed") from None
        if not text.strip():
            raise ParseError("The page has ink, but no text was found on it.", retryable=False)
        return text

    async def _run(self, picture: bytes) -> str:
        """Its output; cancelling this kills the process and what it started."""
        out = await run_program(confined(self.command()), stdin=picture, environment=environment())
        return await asyncio.to_thread(text_of, out)


def text_of(out: bytes) -> str:
    return clean(text_of_page(out.decode("utf-8", "replace")).replace("\f", "")).text


async def read_by_tesseract(
    pdf: Path,
    pages: Sequence[int],
    languages: str,
    options: LocalOptions,
    signal: AbortSignal,
    on_page: PageCallback = ignore_page,
) -> AsyncGenerator[PageOutcome, None]:
    """An outcome for each page, in order; `threads` pages at once, one process each."""
    pacing = Pacing(options.threads, 2 * options.threads, max_retries=0)
    render = RenderOptions(LONGEST_PX, "pgm", options.drawing)
    program = Tesseract(languages, "osd" in languages_installed(), options.page_seconds)
    outcomes = read_in_window(pdf, pages, program.read, pacing, render, signal, on_page)
    async with aclosing(outcomes):
        async for outcome in outcomes:
            yield outcome
