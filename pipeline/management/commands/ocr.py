"""`manage.py ocr`: the pages of one PDF as text, one JSON line each; needs no database or broker."""

from __future__ import annotations

import asyncio
import json
import logging
import signal as signals
import sys
from argparse import RawDescriptionHelpFormatter
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, DjangoHelpFormatter

from pipeline.config import PipelineSettings, pipeline_settings
from pipeline.ocr_options import ocr_options
from pipeline.sandbox_required import refuse_without_sandbox
from pipeline.steps.extract.page_ranges import pages_of, parse_ranges
from pipeline.steps.ocr.line_writer import LineWriter
from pipeline.steps.ocr.ocr import OcrOptions, count_pages, engine_for, page_outcomes
from queuemgr import Aborted, AbortSignal, BadInput, SluiceError, StepFailed
from queuemgr.extend.cli import add_settings, apply_settings, shows_progress
from queuemgr.extend.settings import LaneSettings, keep_private, keep_secrets_in_memory

logger = logging.getLogger(__name__)

ALL_DONE, SOME_FAILED, COULD_NOT_RUN, BROKEN_PIPE = 0, 2, 3, 141

OPTIONS = (
    "ocr_engine", "ocr_base_url", "ocr_model", "ocr_max_tokens", "ocr_inflight", "ocr_window",
    "ocr_timeout", "ocr_max_retries", "ocr_base_delay", "ocr_max_delay", "ocr_max_wait", "ocr_languages",
    "ocr_page_seconds", "ocr_renderers",
)  # fmt: skip

EXAMPLES = """\
examples:
  manage.py ocr paper.pdf --pages 1,4-6
  manage.py ocr scan.pdf --all-pages > scan.jsonl
  manage.py ocr scan.pdf --all-pages --engine rapidocr | jq -r .text
  SLUICE_OCR_API_KEY=... manage.py ocr scan.pdf --all-pages --ocr-base-url https://ocr.example.org/v1

Standard output contains only JSON lines, one per page, in page order, each as soon as possible:
{"page": 4, "status": "ok", "attempts": 1, "text": "..."}, with "blank": true for a page without
ink, or {"page": 5, "status": "error", "attempts": 3, "error_kind": "Timeout", "error_message": "...",
"http_status": 504}. Logs go to standard error.

exit codes: 0 all pages read, 2 some pages failed, 3 could not run, 130 and 143 stopped by SIGINT and
SIGTERM, 141 the reader of standard output has closed it
"""


class Formatter(DjangoHelpFormatter, RawDescriptionHelpFormatter):
    """Keeps the line breaks of the examples."""


class Command(BaseCommand):
    help = "Read pages of a PDF by OCR: by a vision model if an endpoint is set, else locally."
    requires_system_checks = ()

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        parser = super().create_parser(
            prog_name, subcommand, formatter_class=Formatter, epilog=EXAMPLES, **kwargs
        )

        def refuse(message: str) -> NoReturn:
            parser.print_usage(sys.stderr)
            could_not_run(message)

        parser.error = refuse  # type: ignore[method-assign]  # argparse's own would exit with 2
        return parser

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("input", metavar="INPUT.pdf", type=Path)
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--pages", metavar="LIST", help="pages and ranges, as in 1,4-6")
        which.add_argument("--all-pages", action="store_true", help="every page")
        add_settings(
            parser, PipelineSettings, OPTIONS,
            ocr_engine="--engine", ocr_model="--model", ocr_inflight="--inflight",
        )  # fmt: skip
        add_settings(parser, LaneSettings, ["model_threads"])

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            keep_private()
            keep_secrets_in_memory()
            apply_settings(options)
            refuse_without_sandbox()
            config = pipeline_settings()
            ocr = ocr_options(config, max_wait=config.ocr_max_wait)
            code = asyncio.run(run(options["input"], options["pages"], ocr))
        except StepFailed as failure:
            could_not_run(f"{options['input']}: {failure.message}")
        except OSError as error:
            could_not_run(f"{options['input']}: {error.strerror or error}")
        except SluiceError as error:
            could_not_run(str(error))
        sys.exit(code)


def could_not_run(message: str) -> NoReturn:
    sys.stderr.write(f"ocr: {message}\n")
    sys.exit(COULD_NOT_RUN)


async def run(pdf: Path, page_list: str | None, options: OcrOptions) -> int:
    """Print a line for each page; returns the exit code."""
    stopped, signal = Stopped(), AbortSignal()
    work = asyncio.ensure_future(print_pages(pdf, page_list, options, signal))
    for number in (signals.SIGINT, signals.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.by, number, signal, work)
    try:
        return await work
    except (Aborted, asyncio.CancelledError):
        if not stopped.number:
            raise
        logger.info("stopped by %s", signals.Signals(stopped.number).name)
        return 128 + stopped.number


class Stopped:
    """The signal that stopped the command."""

    number = 0

    def by(self, number: int, signal: AbortSignal, work: asyncio.Future[int]) -> None:
        self.number = number
        signal.abort(signals.Signals(number).name)
        work.cancel()


async def print_pages(pdf: Path, page_list: str | None, options: OcrOptions, signal: AbortSignal) -> int:
    if page_list is not None:
        parse_ranges(page_list)  # refuse an invalid list before opening the file
    with pdf.open("rb"):
        engine = engine_for(options).engine
    count = await count_pages(pdf, signal)
    pages = range(1, count + 1) if page_list is None else pages_of(page_list, count)
    if not pages:
        raise BadInput(f"{pdf} has no pages")
    logger.info("%s: %d of %d pages by %s", pdf.name, len(pages), count, engine)
    seconds = options.local.page_seconds * (len(pages) + 1)
    options = replace(options, local=replace(options.local, document_seconds=seconds))
    return await stream(pdf, pages, options, signal)


async def stream(pdf: Path, pages: Sequence[int], options: OcrOptions, signal: AbortSignal) -> int:
    """Write the lines; returns the exit code."""
    writer, failed = LineWriter(sys.stdout.fileno()), 0
    progress = PageProgress(len(pages))
    try:
        async with aclosing(page_outcomes(pdf, pages, options, signal)) as outcomes:
            async for outcome in outcomes:
                failed += outcome.error is not None
                await writer.write(json.dumps(outcome.as_line(), ensure_ascii=False))
                progress.one_more(failed)
    except BrokenPipeError:
        return BROKEN_PIPE
    logger.info("%d pages, %d failed", len(pages), failed)
    return SOME_FAILED if failed else ALL_DONE


class PageProgress:
    """A counter on standard error, if it is a terminal."""

    def __init__(self, pages: int) -> None:
        self._pages, self._done = pages, 0
        self._shown = shows_progress()

    def one_more(self, failed: int) -> None:
        self._done += 1
        if self._shown:
            end = "\n" if self._done == self._pages else "\r"
            sys.stderr.write(f"{self._done}/{self._pages} pages, {failed} failed{end}")
            sys.stderr.flush()
