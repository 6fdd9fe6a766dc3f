"""PDFium reads, pypdf what PDFium cannot, the reason is recorded, and wrong letters are never used."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from pypdf import PdfWriter
from pypdf.generic import NameObject, StreamObject

from pipeline.steps.extract import extract as step
from pipeline.steps.extract.doubtful_layers import Doubt
from pipeline.steps.extract.extract import Extracted, ExtractOptions, extract
from queuemgr.flows.abort_signal import NEVER
from tests.pdf_builder import (
    document,
    font_with_map,
    font_without_map,
    looping_page_tree,
    nested_array,
    text_content,
    written,
)

DEFAULTS = ExtractOptions()
SENTENCE = "The quick brown fox jumps over the lazy dog, and so it continues for a while."
HIRAGANA = range(842, 842 + 80)
"""Glyph numbers of Adobe's Japanese collection, from HIRAGANA SMALL A on."""

CHINESE_AS_LATIN = "Ä¿Â¼ £¨Ò»£© ¡¡ÖÐ¹ú ÈËÃñ ¹²ºÍ¹ú"
"""GBK bytes read as Latin-1."""


def read(folder: Path, content: bytes, options: ExtractOptions = DEFAULTS) -> Extracted:
    return extract(written(folder, content), options, NEVER)


def test_letters_pypdf_has_no_table_for_are_read_by_pdfium(tmp_path: Path) -> None:
    found = read(tmp_path, font_without_map("Japan1", HIRAGANA))
    [page] = found.pages
    assert page.text.startswith("ぁあぃい")
    assert (page.source, page.reason) == ("pdfium", "")
    assert (found.problem, found.without_text) == ("", ())


def test_letters_that_are_nowhere_in_the_file_are_left_to_ocr(tmp_path: Path) -> None:
    """Both engines take glyph numbers for letters: `dgjmps` instead of the page's text."""
    found = read(tmp_path, font_without_map("Identity", range(100, 340, 3)))
    [page] = found.pages
    assert (page.text, page.source) == ("", "failed")
    assert found.without_text == (1,)
    why = "PDFium: its fonts have no character map; pypdf: its fonts have no character map"
    assert found.problem == f"Page 1 could not be read ({why})."


def test_a_file_pypdf_cannot_open_is_read_by_pdfium(tmp_path: Path) -> None:
    [page] = read(tmp_path, looping_page_tree(SENTENCE)).pages
    assert (page.text, page.source) == (SENTENCE, "pdfium")


def test_a_page_pypdf_cannot_read_is_read_by_pdfium(tmp_path: Path) -> None:
    [page] = read(tmp_path, nested_array(before=text_content(SENTENCE))).pages
    assert (page.text, page.source) == (SENTENCE, "pdfium")


def crashing(folder: Path, body: str) -> Path:
    """An engine that reads pages by `body`."""
    script = folder / "engine.py"
    script.write_text(
        "import os, time\n\ndef lines(job):\n    yield {'count': 3}\n"
        "    for page in job['pages'] or [1, 2, 3]:\n"
        f"        if page == 2: {body}\n"
        f"        yield {{'page': page, 'text': 'By the first engine. {SENTENCE}'}}\n"
    )
    return script


@pytest.mark.parametrize(
    ("body", "why"),
    [("os.abort()", "it crashed the program reading it (SIGABRT)"),
     ("time.sleep(600)", "it exceeded the time limit of a page")],
)  # fmt: skip
def test_a_page_on_which_pdfium_ends_is_read_by_pypdf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, why: str
) -> None:
    monkeypatch.setattr(step, "PDFIUM", crashing(tmp_path, body))
    pages = document([text_content(f"Page {word}. {SENTENCE}") for word in ("one", "two", "three")])
    found = read(tmp_path, pages, replace(DEFAULTS, page_seconds=3))
    assert [page.source for page in found.pages] == ["pdfium", "pypdf", "pdfium"]
    assert (found.pages[1].text, found.pages[1].reason) == (f"Page two. {SENTENCE}", f"PDFium: {why}")
    assert found.problem == ""


def test_illegible_text_of_either_engine_is_no_text(tmp_path: Path) -> None:
    junk = text_content(*[CHINESE_AS_LATIN] * 12)
    found = read(tmp_path, document([text_content(SENTENCE), junk]))
    assert [page.source for page in found.pages] == ["pdfium", "failed"]
    assert found.pages[1].reason == (
        "PDFium: few of its words look like words; pypdf: few of its words look like words"
    )
    assert found.without_text == (2,)


def test_pages_without_text_are_pdfiums(tmp_path: Path) -> None:
    found = read(tmp_path, document([text_content(SENTENCE), b"", text_content("12")]))
    assert [(page.source, page.reason) for page in found.pages] == [("pdfium", "")] * 3
    assert found.without_text == (2, 3)


def test_only_doubtful_pages_are_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, object]] = []
    reading_by = step.reading_by

    def noted(child: Path, *args: object) -> object:
        calls.append((child.name, args[4] if len(args) > 4 else None))
        return reading_by(child, *args)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(step, "reading_by", noted)
    junk = text_content(*[CHINESE_AS_LATIN] * 12)
    read(tmp_path, document([text_content(SENTENCE), b"", text_content("12")]))
    assert calls == [("pdfium_child.py", None)]
    read(tmp_path, document([text_content(SENTENCE), junk]))
    assert calls[1:] == [("pdfium_child.py", None), ("pypdf_child.py", [2])]


def test_letters_that_a_font_maps_to_nothing_are_lost_and_not_hidden(tmp_path: Path) -> None:
    lines = [f"a signi\0cant and \0rst result, of {word} gates that o\0er more" for word in ("ten", "two")]
    [page] = read(tmp_path, font_with_map([(line, 72, 700 - 20 * n) for n, line in enumerate(lines)])).pages
    assert page.doubt == Doubt.LOST
    assert "signicant" in page.text


def test_a_hyphen_at_the_end_of_a_line_is_read_as_it_is_printed(tmp_path: Path) -> None:
    """PDFium joins the word, and would make `10.1000/abc` of a DOI that has one."""
    lines = "The gates of the up-", "per basin were opened, see 10.1000/ab-", "c.12, and read on."
    [page] = read(tmp_path, document([text_content(*lines)])).pages
    assert page.text == "\n".join(lines)


# ---- lines in every direction


LINES = "The first line of a page of text", "and a second one that follows it", "then the third, of 12 and 34"


def turned(matrix: str, x: int, y: int, step_x: int, step_y: int, rotate: int = 0) -> bytes:
    """A page whose lines run in the direction of the matrix."""
    drawn = " ".join(
        f"BT /F1 12 Tf {matrix} {x + n * step_x} {y + n * step_y} Tm ({line}) Tj ET"
        for n, line in enumerate(LINES)
    )
    page = document([drawn.encode()])
    return page.replace(b"/MediaBox", b"/Rotate %d /MediaBox" % rotate) if rotate else page


UPRIGHT, LEFT, OVER, RIGHT = ("1 0 0 1", 72, 700, 0, -20), ("0 1 -1 0", 100, 100, 20, 0), (
    "-1 0 0 -1", 500, 200, 0, 20), ("0 -1 1 0", 300, 700, -20, 0)  # fmt: skip


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
@pytest.mark.parametrize("direction", [UPRIGHT, LEFT, OVER, RIGHT], ids=["upright", "left", "over", "right"])
def test_lines_in_any_direction_on_a_page_turned_any_way_are_read_in_order(
    tmp_path: Path, direction: tuple[str, int, int, int, int], rotate: int
) -> None:
    found = read(tmp_path, turned(*direction, rotate))
    assert " ".join(found.pages[0].text.split()) == " ".join(LINES)


HEBREW, ARABIC = (
    ("שלום עולם זה מאמר", "על מחקר בשפה העברית"),
    ("السلام عليكم يا أصدقاء", "هذه ورقة بحثية قصيرة"),
)
JAPANESE = ("日本語の縦書きの文章です", "二行目もここにあります")


@pytest.mark.parametrize("lines", [HEBREW, ARABIC], ids=["Hebrew", "Arabic"])
@pytest.mark.parametrize("by", ["line", "letter"])
def test_lines_from_right_to_left_are_read_as_they_are_written(
    tmp_path: Path, lines: tuple[str, ...], by: str
) -> None:
    if by == "line":  # its letters from the left
        places = [(line[::-1], 72.0, 700 - 20 * n) for n, line in enumerate(lines)]
    else:
        places = [
            (c, 500 - 7.2 * at, 700 - 20 * n) for n, line in enumerate(lines) for at, c in enumerate(line)
        ]
    [page] = read(tmp_path, font_with_map(places)).pages
    assert " ".join(page.text.split()) == " ".join(lines)


@pytest.mark.parametrize("vertical", [True, False], ids=["by its font", "letter by letter"])
def test_every_letter_of_vertical_lines_is_read_in_order(tmp_path: Path, vertical: bool) -> None:
    if vertical:
        places = [(line, 500 - 20 * n, 700.0) for n, line in enumerate(JAPANESE)]
    else:
        places = [
            (c, 500 - 20 * n, 700.0 - 12 * at) for n, line in enumerate(JAPANESE) for at, c in enumerate(line)
        ]
    [page] = read(tmp_path, font_with_map(places, vertical=vertical)).pages
    assert "".join(page.text.split()) == "".join(JAPANESE)


def test_pdfium_is_never_loaded_in_the_worker(tmp_path: Path) -> None:
    """Some files crash it, which would take the worker down."""
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from pipeline.steps.extract.extract import ExtractOptions, extract\n"
        "from queuemgr.flows.abort_signal import NEVER\n"
        "extract(Path(sys.argv[1]), ExtractOptions(), NEVER)\n"
        "assert not {'pypdf', 'pypdfium2'} & set(sys.modules)\n"
    )
    pdf = written(tmp_path, looping_page_tree(SENTENCE))
    assert subprocess.run([sys.executable, "-c", program, str(pdf)]).returncode == 0


XMP = """<?xpacket begin="" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF>
<rdf:Description><dc:title><rdf:Alt><rdf:li xml:lang="x-default">On Sluices</rdf:li></rdf:Alt></dc:title>
<prism:doi>10.1000/gate.7</prism:doi></rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end="w"?>"""


@pytest.mark.parametrize("packed", [False, True], ids=["as-it-is", "packed"])
@pytest.mark.parametrize("password", [None, ""], ids=["open", "encrypted"])
def test_xmp_adds_to_the_information_dictionary(tmp_path: Path, packed: bool, password: str | None) -> None:
    writer = PdfWriter(BytesIO(document([text_content(SENTENCE)])))
    writer.add_metadata({"/Author": "Ada Weir"})
    stream = StreamObject()
    stream.set_data(XMP.encode())
    stream |= {NameObject("/Type"): NameObject("/Metadata"), NameObject("/Subtype"): NameObject("/XML")}
    held = writer._add_object(stream.flate_encode() if packed else stream)
    writer.root_object[NameObject("/Metadata")] = held
    if password is not None:
        writer.encrypt(password, owner_password="owner", algorithm="RC4-128")
    pdf = tmp_path / "paper.pdf"
    writer.write(pdf)
    info = extract(pdf, DEFAULTS, NEVER).info
    assert info == {"title": "On Sluices", "author": "Ada Weir", "doi": "10.1000/gate.7"}
