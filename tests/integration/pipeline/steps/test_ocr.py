"""The local OCR engine on scans made here. Each page costs seconds, so there are few."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pypdf import PdfWriter

from pipeline.steps.ocr.ocr import OcrOptions, OcrResult, ocr
from pipeline.steps.ocr.rapidocr import LocalOptions
from pipeline.steps.pdf.drawing_time import OVER, DrawingLimits
from pipeline.steps.pdf.ocr_child import Box, in_reading_order
from queuemgr.base.errors import Aborted, StepFailed
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from tests.pdf_builder import document, picture_of_text, scanned, slow_to_draw, text_content, written

pytest.importorskip("rapidocr")
pytest.importorskip("pypdfium2")

LEFT = ["First column opens here", "and it continues below", "until its last line ends"]
RIGHT = ["Second column follows it", "with words of its own", "down to the final stop"]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> OcrResult:
    """Page 1 in two columns, page 2 blank, page 3 upside down, and page 9, which is not there."""
    columns = picture_of_text([LEFT, RIGHT])
    blank = picture_of_text([[]])
    turned = picture_of_text([LEFT]).rotate(180)
    path = written(tmp_path_factory.mktemp("ocr"), scanned([columns, blank, turned]))
    return ocr(path, [1, 2, 3, 9], OcrOptions(), NEVER)


def test_two_columns_are_read_left_then_right(read: OcrResult) -> None:
    assert read.pages[0].text.split("\n") == [*LEFT, *RIGHT]
    assert (read.pages[0].number, read.pages[0].source) == (1, "ocr")


def test_a_blank_page_is_not_recognised_but_named_blank(read: OcrResult) -> None:
    assert read.blank == (2,)


def test_a_page_upside_down_is_read_in_order(read: OcrResult) -> None:
    assert read.pages[1].text.split("\n") == LEFT


def test_a_page_that_cannot_be_read_is_named_with_its_reason(read: OcrResult) -> None:
    """Missing pages are visible."""
    (failed,) = read.failed.values()
    assert list(read.failed) == [9]
    assert "no such page" in failed.message


def test_a_page_that_takes_too_long_is_named_and_the_next_is_read(tmp_path: Path) -> None:
    """A hung page costs itself alone; the blank one behind it needs no engine."""
    path = written(tmp_path, scanned([picture_of_text([9 * LEFT, 9 * RIGHT]), picture_of_text([[]])]))
    options = OcrOptions("rapidocr", local=replace(LocalOptions(), page_seconds=1.5))
    found = ocr(path, [1, 2], options, NEVER)
    assert {n: failed.name for n, failed in found.failed.items()} == {1: "Timeout"}
    assert "the time limit of a page" in found.failed[1].message
    assert found.blank == (2,)


def test_a_document_that_takes_too_long_to_draw_is_given_up(tmp_path: Path) -> None:
    """Within its own bound, not page by page for half an hour."""
    path = written(tmp_path, slow_to_draw(500))
    options = OcrOptions("rapidocr", local=LocalOptions(drawing=DrawingLimits(0.5, 0.9)))
    found = ocr(path, range(1, 501), options, NEVER)
    assert {failed.kind for failed in found.failed.values()} == {"resource_limit"}
    assert len(found.failed) == 500
    assert sum(OVER in failed.message for failed in found.failed.values()) == 499


def test_an_abort_ends_recognition(tmp_path: Path) -> None:
    signal = AbortSignal()
    signal.abort("stop")
    with pytest.raises(Aborted):
        ocr(written(tmp_path, document([text_content("x")])), [1], OcrOptions(), signal)


def test_an_encrypted_scan_says_so(tmp_path: Path) -> None:
    writer = PdfWriter()
    writer.add_blank_page(200, 200)
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(tmp_path / "locked.pdf")
    with pytest.raises(StepFailed, match="password") as caught:
        ocr(tmp_path / "locked.pdf", [1], OcrOptions(), NEVER)
    assert caught.value.kind == "encrypted"


def test_a_damaged_scan_says_so(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="damaged") as caught:
        ocr(written(tmp_path, b"%PDF-1.7 and no more"), [1], OcrOptions(), NEVER)
    assert caught.value.kind == "damaged"


def test_a_missing_engine_is_a_configuration_error(tmp_path: Path) -> None:
    """Run in an interpreter without the packages of the group `ocr` and without Tesseract."""
    program = (
        f"import sys; sys.path.insert(0, {str(Path.cwd())!r})\n"
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "extra = 'rapidocr', 'onnxruntime', 'pypdfium2'\n"
        "importlib.util.find_spec = lambda name: None if name in extra else find(name)\n"
        "from pathlib import Path\n"
        "from pipeline.steps.ocr.ocr import OcrOptions, ocr\n"
        "from queuemgr.flows.abort_signal import NEVER\n"
        "from queuemgr.base.errors import StepFailed\n"
        "try:\n    ocr(Path('x.pdf'), [1], OcrOptions(), NEVER)\n"
        "except StepFailed as failed:\n    print(failed.kind, failed.message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program],
        capture_output=True, text=True, check=True, env={"PATH": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.startswith("no_engine")
    assert "run `make install`" in done.stdout


# ---- reading order


def line(left: float, top: float, right: float, text: str) -> Box:
    return Box(left, top, right, top + 20, text)


def column(left: float, right: float, first: float, *words: str) -> list[Box]:
    return [line(left, first + 30 * i, right, word) for i, word in enumerate(words)]


def test_a_title_and_a_wide_figure_split_the_columns_into_bands() -> None:
    boxes = [
        *column(0, 450, 50, "a", "b", "c"),
        *column(500, 950, 52, "d", "e", "f"),
        line(0, 200, 950, "caption"),
        *column(0, 450, 250, "g", "h", "i"),
        *column(500, 950, 250, "j", "k", "l"),
        line(100, 0, 850, "title"),
    ]
    expected = "title a b c d e f caption g h i j k l"
    assert in_reading_order(boxes) == expected.replace(" ", "\n")


def test_a_short_column_of_prose_is_read_after_the_long_one_and_rows_of_a_table_stay_rows() -> None:
    long, short = [f"l{n}" for n in range(30)], [f"r{n}" for n in range(6)]
    boxes = [*column(0, 450, 0, *long), *column(500, 950, 2, *short)]
    assert in_reading_order(boxes).split() == [*long, *short]
    cells = [*column(0, 450, 0, *long), *column(800, 950, 2, *short)]
    assert in_reading_order(cells).splitlines()[:2] == ["l0 r0", "l1 r1"]


def test_one_column_stays_one_column() -> None:
    boxes = [*column(0, 950, 0, "a", "b", "c", "d", "e"), line(0, 150, 300, "end")]
    assert in_reading_order(boxes) == "a\nb\nc\nd\ne\nend"


def test_pieces_of_one_line_are_joined_from_left_to_right() -> None:
    boxes = [line(300, 3, 500, "world"), line(0, 0, 290, "hello"), line(0, 40, 500, "next line")]
    assert in_reading_order(boxes) == "hello world\nnext line"


def test_vertical_writing_is_read_from_the_right() -> None:
    boxes = [Box(x, 0, x + 20, 400, text) for x, text in ((0, "三番目"), (40, "二番目"), (80, "一番"))]
    assert in_reading_order(boxes) == "一番\n二番目\n三番目"


def test_an_empty_page_has_no_text() -> None:
    assert in_reading_order([]) == ""
