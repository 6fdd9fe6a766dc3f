"""Tesseract being slow, hung, failing, or leaving children; a script of ours stands in for it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from pipeline.steps.ocr import tesseract
from pipeline.steps.ocr.ocr import OcrOptions, OcrResult, ocr
from pipeline.steps.ocr.rapidocr import LocalOptions
from pipeline.steps.ocr.tesseract import LONGEST_PX
from queuemgr.base.errors import Aborted
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from tests.integration.pipeline.steps.ocr_endpoint import HEIGHT, WIDTH, numbered_pages
from tests.pdf_builder import written

pytest.importorskip("pypdfium2")

PROGRAM = """\
#!{python} -S
import os, subprocess, sys, time
if "--list-langs" in sys.argv:
    print("List of available languages (2):\\neng\\nosd")
    sys.exit()
picture = sys.stdin.buffer.read()
magic, size, rest = picture.split(b"\\n", 2)
width, height = map(int, size.split())
page = round(width * {scale}) - {width}
with open({notes!r} + f"/{{page}}", "a") as notes:
    notes.write(f"{{os.getpid()}} {{os.environ.get('OMP_THREAD_LIMIT')}} {{' '.join(sys.argv[1:])}}\\n")
if page in {hung}:
    child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
    with open({notes!r} + f"/{{page}}", "a") as notes:
        notes.write(f"{{child.pid}}\\n")
    time.sleep(600)
if page in {leaving}:
    child = subprocess.Popen(["sleep", "600"])
    with open({notes!r} + f"/{{page}}", "a") as notes:
        notes.write(f"{{child.pid}}\\n")
if page in {failing}:
    print("half of a page")
    sys.exit(3)
print("" if page in {wordless} else f"page {{page}}\\f")
"""

Fake = Callable[..., Path]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Put a fake `tesseract` on PATH with this behaviour by page, which no confined program has; returns
    the folder of its notes."""
    monkeypatch.setattr(tesseract, "confined", list)

    def make(**pages: set[int]) -> Path:
        notes, folder = tmp_path / "notes", tmp_path / "bin"
        notes.mkdir()
        folder.mkdir()
        behaviour = {"hung": {0}, "leaving": {0}, "failing": {0}, "wordless": {0}} | pages
        program = folder / "tesseract"
        program.write_text(
            PROGRAM.format(
                python=sys.executable, notes=str(notes), width=WIDTH, scale=HEIGHT / LONGEST_PX, **behaviour
            )
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return notes

    return make


def read(folder: Path, pages: int, page_seconds: float = 20.0, threads: int = 2) -> OcrResult:
    local = replace(LocalOptions(), page_seconds=page_seconds, threads=threads)
    pdf = written(folder, numbered_pages(pages))
    return ocr(pdf, range(1, pages + 1), OcrOptions("tesseract", "eng", local), NEVER)


def noted(notes: Path, pages: int) -> list[list[str]]:
    """The words of each line that the program noted for any page."""
    files = [notes / str(page) for page in range(1, pages + 1)]
    return [line.split() for file in files if file.exists() for line in file.read_text().splitlines()]


def alive(notes: Path, pages: int) -> list[int]:
    """The noted processes that still run; a killed one may take a moment to end."""
    numbers = [int(words[0]) for words in noted(notes, pages)]
    deadline = time.monotonic() + 5
    while left := [number for number in numbers if running(number)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return left


def running(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_hung_pages_are_named_the_others_read_and_no_process_is_left(fake: Fake, tmp_path: Path) -> None:
    """Neither the program nor the child it started outlives its page."""
    notes = fake(hung={2, 5})
    found = read(tmp_path, 6, page_seconds=3.0)
    assert {n: failed.name for n, failed in found.failed.items()} == {2: "Timeout", 5: "Timeout"}
    assert [page.text.strip() for page in found.pages] == [f"page {n}" for n in (1, 3, 4, 6)]
    assert len(noted(notes, 6)) == 6 + 2, "each hung page had a child"
    assert alive(notes, 6) == []


def test_an_abort_leaves_no_process_either(fake: Fake, tmp_path: Path) -> None:
    notes, signal = fake(hung={1}), AbortSignal()
    pdf = written(tmp_path, numbered_pages(1))
    local = replace(LocalOptions(), page_seconds=60.0)

    def abort_when_hung() -> None:
        while len(noted(notes, 1)) < 2:
            time.sleep(0.02)
        signal.abort("stop")

    thread = threading.Thread(target=abort_when_hung, daemon=True)
    thread.start()
    with pytest.raises(Aborted):
        ocr(pdf, [1], OcrOptions("tesseract", "eng", local), signal)
    thread.join()
    assert alive(notes, 1) == []


def test_each_process_is_limited_to_one_thread_and_given_the_languages(fake: Fake, tmp_path: Path) -> None:
    notes = fake()
    read(tmp_path, 3)
    assert [words[1:] for words in noted(notes, 3)] == [
        ["1", "stdin", "stdout", "-l", "eng", "--psm", "1", "tsv"]
    ] * 3


def test_a_page_that_fails_or_has_no_words_is_reported_and_the_others_are_read(
    fake: Fake, tmp_path: Path
) -> None:
    fake(failing={1}, wordless={2})
    found = read(tmp_path, 3)
    assert {n: failed.name for n, failed in found.failed.items()} == {
        1: "PdfError", 2: "ParseError",
    }  # fmt: skip
    assert "status 3" in found.failed[1].message
    assert [page.number for page in found.pages] == [3]


def test_what_it_leaves_running_is_killed_and_its_page_read(fake: Fake, tmp_path: Path) -> None:
    """The child it leaves holds its output open; it neither delays the page nor survives."""
    notes = fake(leaving={1})
    found = read(tmp_path, 2)
    assert [page.text.strip() for page in found.pages] == ["page 1", "page 2"]
    assert len(noted(notes, 1)) == 2
    assert alive(notes, 1) == []
