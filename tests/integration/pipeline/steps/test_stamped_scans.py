"""Scans with a stamp, of one picture or of strips, beside pages of text: which of them OCR is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.steps.extract.doubtful_layers import Doubt
from pipeline.steps.extract.extract import ExtractOptions, extract
from queuemgr.flows.abort_signal import NEVER
from tests.pdf_builder import document, stream, text_content, written

STAMP = "This content downloaded from 192.0.2.7 on Tue, 08 Mar 2022. All use subject to terms."
PROSE = [
    f"{number}. The water of the river rose during the night of the {number}th, and gates were opened."
    for number in range(3, 12)
]
OTHER_PROSE = [f"{line[::-1]} {chr(97 + at) * 5}" for at, line in enumerate(PROSE)]
PICTURE = stream(b"\x00" * 64, b"/Type /XObject /Subtype /Image /Width 8 /Height 8 /ColorSpace /DeviceGray "
                 b"/BitsPerComponent 8")  # fmt: skip
WHOLE = b"q 612 0 0 792 0 0 cm /X0 Do Q "
STRIPS = b"".join(b"q 612 0 0 40 0 %d cm /X0 Do Q " % (at * 40) for at in range(20))
FIGURE = b"q 400 0 0 300 100 100 cm /X0 Do Q "


def doubts(folder: Path, *contents: bytes) -> list[Doubt]:
    resources = b"/XObject << /X0 %d 0 R >>" % (4 + 2 * len(contents))
    path = written(folder, document(contents, resources, [PICTURE]))
    found = extract(path, ExtractOptions(), NEVER)
    bare = {page.number for page in found.pages if page.doubt}
    assert set(found.without_text) >= bare
    return [page.doubt for page in found.pages]


@pytest.mark.parametrize("scan", [WHOLE, STRIPS], ids=["one picture", "strips"])
@pytest.mark.parametrize("pages", [1, 3])
def test_scans_with_a_stamp_are_read_by_ocr(pages: int, scan: bytes, tmp_path: Path) -> None:
    assert doubts(tmp_path, *[scan + text_content(STAMP)] * pages) == [Doubt.STAMP] * pages


def test_a_page_of_text_a_figure_and_text_over_a_background_are_not(tmp_path: Path) -> None:
    pages = [
        text_content(*PROSE, STAMP),
        WHOLE + text_content(STAMP),
        FIGURE + text_content("Figure 3: the gates at night, from the tower.", STAMP),
        WHOLE + text_content(*OTHER_PROSE),
    ]
    assert doubts(tmp_path, *pages) == [Doubt.NONE, Doubt.STAMP, Doubt.NONE, Doubt.NONE]


def test_ocr_of_every_page_may_be_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, document([text_content(*PROSE)] * 2))
    found = extract(path, ExtractOptions(), NEVER)
    assert found.without_text == ()
    assert found.doubted.without_text == (1, 2)
