"""`manage.py ocr` as a program: its output, its exit codes, and that signals stop it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.pipeline.steps.ocr_endpoint import (
    VisionEndpoint,
    error,
    noisy_pages,
    numbered_pages,
    text,
)
from tests.pdf_builder import written

pytest.importorskip("pypdfium2")

MANAGE = Path(__file__).resolve().parents[3] / "manage.py"


@pytest.fixture
def vision() -> Iterator[VisionEndpoint]:
    with VisionEndpoint().serving() as endpoint:
        yield endpoint


def started(vision: VisionEndpoint, *words: object) -> subprocess.Popen[bytes]:
    """The command, without a database or a broker."""
    environment = {
        **os.environ,
        "DATABASE_URL": "postgres://nobody@127.0.0.1:9/none",
        "SLUICE_OCR_BASE_URL": vision.base_url,
        "SLUICE_OCR_BASE_DELAY": "0.01",
    }
    return subprocess.Popen(
        [sys.executable, str(MANAGE), "ocr", *map(str, words)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def ended(vision: VisionEndpoint, *words: object) -> tuple[int, list[dict[str, Any]], str]:
    """The exit code, the lines of standard output, and standard error."""
    process = started(vision, *words)
    out, err = process.communicate(timeout=180)
    return process.returncode, [json.loads(line) for line in out.splitlines()], err.decode()


def test_a_line_a_page_in_page_order_and_nothing_else_is_printed(
    vision: VisionEndpoint, tmp_path: Path
) -> None:
    pdf = written(tmp_path, numbered_pages(7))
    code, lines, _ = ended(vision, pdf, "--pages", "5-6,1,4-5")
    assert code == 0
    assert lines == [{"page": n, "status": "ok", "attempts": 1, "text": f"page {n}"} for n in (1, 4, 5, 6)]


def test_a_failed_page_is_a_line_with_its_error_and_the_exit_code_is_2(
    vision: VisionEndpoint, tmp_path: Path
) -> None:
    vision.next_for[2] = [error(504)] * 3
    pdf = written(tmp_path, numbered_pages(3))
    code, lines, _ = ended(vision, pdf, "--all-pages", "--ocr-max-retries", 2)
    assert code == 2
    assert [line["status"] for line in lines] == ["ok", "error", "ok"]
    said = lines[1].pop("error_message")
    assert "504" in said
    assert lines[1] == {
        "page": 2, "status": "error", "attempts": 3, "error_kind": "HttpError", "http_status": 504,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pages", "3-1"], "is reversed"),
        (["--pages", "0"], "numbered from 1"),
        (["--pages", "1,,2"], "an entry is empty"),
        (["--pages", "two"], "'two' is neither"),
        (["--pages", "2,9"], "no page 9, the document has 2 pages"),
        (["--pages", "1", "--all-pages"], "not allowed with"),
        ([], "--pages --all-pages is required"),
        (["--all-pages", "--inflight", "0"], "SLUICE_OCR_INFLIGHT"),
        (["--all-pages", "--engine", "crystal"], "SLUICE_OCR_ENGINE"),
    ],
)
def test_what_cannot_run_says_what_is_wrong_and_exits_with_3(
    words: list[str], said: str, vision: VisionEndpoint, tmp_path: Path
) -> None:
    pdf = written(tmp_path, numbered_pages(2))
    code, lines, told = ended(vision, pdf, *words)
    assert (code, lines) == (3, [])
    assert said in told
    assert "Traceback" not in told
    assert vision.asked == []


def test_a_file_that_is_no_pdf_is_named(vision: VisionEndpoint, tmp_path: Path) -> None:
    for name, content in (("page.pdf", b"<html>"), ("none.pdf", None)):
        if content is not None:
            written(tmp_path, content, name)
        code, _, told = ended(vision, tmp_path / name, "--all-pages")
        assert code == 3
        assert name in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("is_read", [True, False])
def test_a_signal_stops_it_at_once_and_leaves_no_process(
    number: signal.Signals, is_read: bool, vision: VisionEndpoint, tmp_path: Path
) -> None:
    """Also while nobody reads its output. Idle machines need less than two seconds; the remaining pages would
    take more than a minute."""
    long = "word " * 5000
    vision.usual = lambda asked: text(long, delay=30.0 if is_read and asked.page > 3 else 0.0)
    process = started(vision, written(tmp_path, numbered_pages(200)), "--all-pages")
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(1.0)
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    began = time.monotonic()
    process.send_signal(number)
    try:
        assert process.wait(timeout=60) == 128 + number
        assert time.monotonic() - began < 30.0
        assert not any(child.is_running() for child in children)
    finally:
        process.kill()
        process.communicate()


def test_a_reader_that_goes_away_ends_it_quietly(vision: VisionEndpoint, tmp_path: Path) -> None:
    process = started(vision, written(tmp_path, numbered_pages(100)), "--all-pages")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    told = process.stderr.read().decode()
    assert process.wait(timeout=60) == 141
    assert "Error" not in told and "Traceback" not in told
    process.stderr.close()


PAGE_BYTES = 160 << 10
"""The bytes of a noisy page: a picture of 120 KB and an answer of 48 KB."""


@pytest.mark.parametrize("pages", [200, pytest.param(1000, marks=pytest.mark.slow_proof)])
def test_memory_stays_flat_over_many_pages(pages: int, vision: VisionEndpoint, tmp_path: Path) -> None:
    """After page 60 memory grows by less than half of what keeping the pages would take."""
    long = " ".join(map(str, range(10_000)))
    vision.usual = lambda asked: text(long)
    process = started(vision, written(tmp_path, noisy_pages(pages)), "--all-pages")
    assert process.stdout is not None
    tree = psutil.Process(process.pid)
    seen: dict[int, int] = {}
    for line in process.stdout:
        page = json.loads(line)["page"]
        if page in (60, pages - 10):
            seen[page] = sum(p.memory_info().rss for p in [tree, *tree.children(recursive=True)])
    process.communicate()
    assert process.returncode == 0
    assert seen[pages - 10] - seen[60] < (pages - 70) * PAGE_BYTES / 2


def test_the_help_shows_examples(vision: VisionEndpoint) -> None:
    process = started(vision, "--help")
    out, _ = process.communicate(timeout=180)
    assert b"manage.py ocr paper.pdf --pages 1,4-6\n" in out
