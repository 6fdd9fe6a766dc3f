"""`manage.py ocr` as a program: its output, its exit codes, and that signals stop it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fork_server import PipedProcess
from tests.integration.pipeline.steps.ocr_endpoint import (
    VisionEndpoint,
    error,
    noisy_pages,
    numbered_pages,
    text,
)
from tests.pdf_builder import written
from tests.shell import Shell

pytest.importorskip("pypdfium2")

Ocr = Callable[..., PipedProcess]


@pytest.fixture
def vision() -> Iterator[VisionEndpoint]:
    with VisionEndpoint().serving() as endpoint:
        yield endpoint


@pytest.fixture
def ocr(vision: VisionEndpoint, shell: Shell, tmp_path: Path) -> Ocr:
    """Start the command, without a database or a broker: `ocr(pdf, "--all-pages")`."""

    def start(*arguments: object) -> PipedProcess:
        return shell.start(
            tmp_path, "ocr", *arguments, DATABASE_URL="postgres://nobody@127.0.0.1:9/none",
            SLUICE_OCR_BASE_URL=vision.base_url, SLUICE_OCR_BASE_DELAY="0.01",
        )  # fmt: skip

    return start


def ended(started: PipedProcess) -> tuple[int, list[dict[str, Any]], str]:
    """The exit code, the lines of standard output, and standard error."""
    out, err = started.communicate(timeout=180)
    return started.process.wait(), [json.loads(line) for line in out.splitlines()], err.decode()


def test_exactly_one_line_per_page_is_printed_in_page_order(ocr: Ocr, tmp_path: Path) -> None:
    pdf = written(tmp_path, numbered_pages(7))
    code, lines, _ = ended(ocr(pdf, "--pages", "5-6,1,4-5"))
    assert code == 0
    assert lines == [{"page": n, "status": "ok", "attempts": 1, "text": f"page {n}"} for n in (1, 4, 5, 6)]


def test_a_failed_page_is_a_line_with_its_error_and_the_exit_code_is_2(
    vision: VisionEndpoint, ocr: Ocr, tmp_path: Path
) -> None:
    vision.next_for[2] = [error(504)] * 3
    pdf = written(tmp_path, numbered_pages(3))
    code, lines, errors = ended(ocr(pdf, "--all-pages", "--ocr-max-retries", 2))
    assert errors.count("page 2, attempt") == 2, "each retry is announced"
    assert code == 2
    assert [line["status"] for line in lines] == ["ok", "error", "ok"]
    message = lines[1].pop("error_message")
    assert "504" in message
    assert lines[1] == {
        "page": 2, "status": "error", "attempts": 3, "error_kind": "Timeout", "http_status": 504,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
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
def test_an_invalid_call_says_what_is_wrong_and_exits_with_3(
    arguments: list[str], message: str, vision: VisionEndpoint, ocr: Ocr, tmp_path: Path
) -> None:
    pdf = written(tmp_path, numbered_pages(2))
    code, lines, errors = ended(ocr(pdf, *arguments))
    assert (code, lines) == (3, [])
    assert message in errors
    assert "Traceback" not in errors
    assert vision.requests == []


def test_a_file_that_is_no_pdf_is_named(ocr: Ocr, tmp_path: Path) -> None:
    for name, content, what in (
        ("page.pdf", b"<html>", "not a PDF but a web page"),
        ("text.pdf", b"only text", "not a PDF but another file"),
        ("none.pdf", None, "No such file"),
    ):
        if content is not None:
            written(tmp_path, content, name)
        code, _, errors = ended(ocr(tmp_path / name, "--all-pages"))
        assert code == 3
        assert name in errors and what in errors


def test_a_wait_that_is_asked_for_is_announced_and_one_that_is_too_long_ends_its_pages(
    vision: VisionEndpoint, ocr: Ocr, tmp_path: Path
) -> None:
    pdf = written(tmp_path, numbered_pages(1))
    told = {}
    for seconds, status in (("1", "ok"), ("7200", "error")):
        vision.next_for[1] = [error(429, **{"Retry-After": seconds})]
        code, (line,), told[seconds] = ended(ocr(pdf, "--all-pages", "--ocr-max-wait", 60))
        assert (code, line["status"]) == (0 if status == "ok" else 2, status)
    assert line["error_kind"] == "RateLimit"
    assert "asks for a wait of 1 s" in told["1"] and "asks for a wait of 7200 s" in told["7200"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("is_read", [True, False])
def test_a_signal_stops_it_at_once_and_leaves_no_process(
    number: signal.Signals, is_read: bool, vision: VisionEndpoint, ocr: Ocr, tmp_path: Path
) -> None:
    """Also while nobody reads its output. Idle machines need less than two seconds; the remaining pages would
    take more than a minute."""
    long = "word " * 5000
    vision.usual = lambda request: text(long, delay=30.0 if is_read and request.page > 3 else 0.0)
    started = ocr(written(tmp_path, numbered_pages(200)), "--all-pages")
    started.stdout.readline()
    time.sleep(1.0)
    children = psutil.Process(started.process.pid).children(recursive=True)
    assert children
    began = time.monotonic()
    started.process.send_signal(number)
    try:
        assert started.process.wait(60) == 128 + number
        assert time.monotonic() - began < 30.0
        assert not any(child.is_running() for child in children)
    finally:
        started.process.kill()
        started.communicate(60)


def test_a_reader_that_goes_away_ends_it_quietly(ocr: Ocr, tmp_path: Path) -> None:
    started = ocr(written(tmp_path, numbered_pages(100)), "--all-pages")
    started.stdout.readline()
    started.stdout.close()
    errors = started.stderr.read().decode()
    assert started.process.wait(60) == 141
    assert "Error" not in errors and "Traceback" not in errors
    started.stderr.close()


PAGE_BYTES = 160 << 10
"""The bytes of a noisy page: a picture of 120 KB and an answer of 48 KB."""


@pytest.mark.slow_proof
@pytest.mark.parametrize("pages", [250, 1000])
def test_memory_stays_flat_over_many_pages(
    pages: int, vision: VisionEndpoint, ocr: Ocr, tmp_path: Path
) -> None:
    """After page 120 memory grows by less than half of what keeping the pages would take. It goes up and down
    with each page drawn: the least of some pages counts."""
    long = " ".join(map(str, range(10_000)))
    vision.usual = lambda request: text(long)
    started = ocr(written(tmp_path, noisy_pages(pages)), "--all-pages")
    tree = psutil.Process(started.process.pid)
    early, late = list[int](), list[int]()
    for line in started.stdout:
        page = json.loads(line)["page"]
        for seen, last in ((early, 120), (late, pages - 10)):
            if last - 10 < page <= last:
                seen.append(sum(p.memory_info().rss for p in [tree, *tree.children(recursive=True)]))
    started.communicate(60)
    assert started.process.returncode == 0
    assert min(late) - min(early) < (pages - 130) * PAGE_BYTES / 2


def test_the_help_shows_examples(ocr: Ocr) -> None:
    started = ocr("--help")
    out, _ = started.communicate(60)
    assert b"manage.py ocr paper.pdf --pages 1,4-6\n" in out
