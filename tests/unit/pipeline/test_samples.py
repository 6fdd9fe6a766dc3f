"""The shipped sample documents are what samples/README.md says they are."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from pypdf import PasswordType, PdfReader
from pypdf.errors import FileNotDecryptedError, PyPdfError

pytestmark = pytest.mark.filterwarnings("error")

SAMPLES = Path(__file__).resolve().parents[3] / "samples"
PAGES = {"two-column.pdf": 6, "author-year.pdf": 5, "scanned.pdf": 2, "long.pdf": 60, "cjk.pdf": 2}
BORN_DIGITAL = [name for name in PAGES if name != "scanned.pdf"]
TROUBLED = ["troubled/encrypted.pdf", "troubled/damaged.pdf", "troubled/html-named.pdf"]
SIZE_LIMIT = 1_500_000
SCAN_SIZE_LIMIT = 250_000


@cache
def pages_of(name: str) -> list[str]:
    """The text layer of each page of a sample."""
    return [page.extract_text() for page in PdfReader(SAMPLES / name).pages]


def text_of(name: str) -> str:
    """The text layer of a sample, page after page."""
    return "\n".join(pages_of(name))


def after_heading(name: str, heading: str) -> str:
    """The text of a sample after the only line that equals `heading`."""
    parts = re.split(rf"^{heading}$", text_of(name), flags=re.MULTILINE)
    assert len(parts) == 2
    return parts[1]


@pytest.mark.parametrize(("name", "pages"), PAGES.items())
def test_each_document_has_the_promised_number_of_pages(name: str, pages: int) -> None:
    assert len(PdfReader(SAMPLES / name).pages) == pages


@pytest.mark.parametrize("name", [*PAGES, "troubled/encrypted.pdf", "troubled/damaged.pdf"])
def test_each_pdf_begins_with_the_magic_bytes_of_a_pdf(name: str) -> None:
    assert (SAMPLES / name).read_bytes().startswith(b"%PDF-1.")


@pytest.mark.parametrize("name", BORN_DIGITAL)
def test_every_page_of_a_born_digital_document_has_a_text_layer(name: str) -> None:
    assert all(len(page) > 100 for page in pages_of(name))


@pytest.mark.parametrize("name", BORN_DIGITAL)
def test_no_character_of_a_born_digital_document_is_lost_or_disguised(name: str) -> None:
    assert not set(text_of(name)) & {"\ufffd", "\u00ad", "\u0000", "\ufb01", "\ufb02"}


@pytest.mark.parametrize("name", PAGES)
def test_no_document_outside_the_troubled_folder_is_encrypted(name: str) -> None:
    assert not PdfReader(SAMPLES / name).is_encrypted


def test_the_scan_has_one_picture_and_no_text_on_each_page() -> None:
    for page in PdfReader(SAMPLES / "scanned.pdf").pages:
        assert page.extract_text() == ""
        assert len(page.images) == 1


def test_the_scan_is_a_small_file_of_150_dots_per_inch() -> None:
    path = SAMPLES / "scanned.pdf"
    page = PdfReader(path).pages[0]
    picture = page.images[0].image
    assert picture is not None
    assert round(picture.width / (float(page.mediabox.width) / 72)) == 150
    assert path.stat().st_size < SCAN_SIZE_LIMIT


def test_the_two_column_paper_is_extracted_left_column_first() -> None:
    text = pages_of("two-column.pdf")[0]
    left, right = text.index("A sluice keeper on a lowland"), text.index("The flow beneath a")
    assert text.index("Abstract") < left < right


@pytest.mark.parametrize(("name", "count"), [("two-column.pdf", 24), ("long.pdf", 41)])
def test_numbered_references_run_from_one_without_a_gap(name: str, count: int) -> None:
    entries = after_heading(name, "References")
    numbers = [int(number) for number in re.findall(r"^\[(\d+)\] ", entries, re.MULTILINE)]
    assert numbers == list(range(1, count + 1))


@pytest.mark.parametrize(("name", "count"), [("two-column.pdf", 24), ("long.pdf", 41)])
def test_every_numbered_reference_is_cited_in_the_text(name: str, count: int) -> None:
    body = re.split(r"^References$", text_of(name), flags=re.MULTILINE)[0]
    assert set(re.findall(r"\[(\d+)\]", body)) == {str(n) for n in range(1, count + 1)}


def test_the_author_year_paper_has_seventeen_references_in_alphabetical_order() -> None:
    entries = after_heading("author-year.pdf", "References")
    names = re.findall(r"^(\S[^\n(]*?)\.? \(\d{4}\)\. ", entries, re.MULTILINE)
    assert len(names) == 17
    assert names == sorted(names)


def test_the_long_report_repeats_its_running_head_and_numbers_its_pages() -> None:
    for number, page in enumerate(pages_of("long.pdf")[1:], start=2):
        lines = page.splitlines()
        assert lines[0].startswith("The Marrow Basin Gate Survey ")
        assert lines[-1] == str(number)


@pytest.mark.parametrize(
    "phrase",
    [
        "小型闸门的双水位调度",
        "乡村小型闸门多凭经验启闭",
        "编号为甲、乙、丙、丁、戊、己",
        "这一方法不需要新的设备\uff0c只需要一罐油漆和一点耐心。",
    ],
)
def test_chinese_text_is_extracted_character_for_character(phrase: str) -> None:
    assert phrase in text_of("cjk.pdf").replace("\n", "")


def test_chinese_text_has_no_look_alike_radicals_or_compatibility_characters() -> None:
    assert not re.search(r"[\u2e80-\u2fdf\uf900-\ufaff]", text_of("cjk.pdf"))


def test_the_chinese_font_is_embedded_with_a_map_to_unicode() -> None:
    fonts = PdfReader(SAMPLES / "cjk.pdf").pages[0]["/Resources"]["/Font"]  # type: ignore[index]  # a page has some
    faces = [font.get_object() for font in fonts.values()]
    chinese = [face for face in faces if "NotoSerifCJK" in face["/BaseFont"]]
    assert chinese
    for face in chinese:
        assert "/ToUnicode" in face
        descriptor = face["/DescendantFonts"][0].get_object()["/FontDescriptor"].get_object()
        assert {"/FontFile2", "/FontFile3"} & set(descriptor)


def test_the_chinese_paper_has_eight_references() -> None:
    entries = after_heading("cjk.pdf", "参考文献")
    assert re.findall(r"^\[(\d)\] ", entries, re.MULTILINE) == list("12345678")


def test_the_encrypted_document_cannot_be_read_without_its_password() -> None:
    reader = PdfReader(SAMPLES / "troubled/encrypted.pdf")
    assert reader.is_encrypted
    assert reader.decrypt("") == PasswordType.NOT_DECRYPTED
    with pytest.raises(FileNotDecryptedError):
        reader.pages[0].extract_text()


def test_the_encrypted_document_opens_with_the_password_in_the_readme() -> None:
    reader = PdfReader(SAMPLES / "troubled/encrypted.pdf")
    assert "`heron-gate`" in (SAMPLES / "README.md").read_text(encoding="utf-8")
    assert reader.decrypt("heron-gate") != PasswordType.NOT_DECRYPTED
    assert "Minutes of the Gate Committee" in reader.pages[0].extract_text()


def test_the_damaged_document_cannot_be_opened() -> None:
    with pytest.raises(PyPdfError):
        len(PdfReader(SAMPLES / "troubled/damaged.pdf").pages)


def test_the_damaged_document_holds_no_recoverable_part() -> None:
    data = (SAMPLES / "troubled/damaged.pdf").read_bytes()
    assert not re.search(rb"endobj|endstream|xref|trailer|startxref|%%EOF|\(\w+\) ?Tj", data)


def test_the_web_page_under_a_pdf_name_is_a_web_page() -> None:
    data = (SAMPLES / "troubled/html-named.pdf").read_bytes()
    assert data.lower().startswith(b"<!doctype html>")
    assert b"%PDF" not in data


def test_the_readme_lists_every_sample_and_no_other() -> None:
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([^`]+\.pdf)`", readme, re.MULTILINE))
    shipped = {path.relative_to(SAMPLES).as_posix() for path in SAMPLES.rglob("*.pdf")}
    assert listed == shipped == {*PAGES, *TROUBLED}


def test_the_readme_states_the_number_of_pages_of_each_document() -> None:
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    stated = re.findall(r"^\| `([^`]+\.pdf)` \|[^|]+\| (\d+) \|", readme, re.MULTILINE)
    assert {name: int(pages) for name, pages in stated} == PAGES | {"troubled/encrypted.pdf": 1}


def test_all_samples_together_stay_small() -> None:
    shipped = (p for p in SAMPLES.rglob("*") if p.is_file() and "_cache" not in str(p))
    assert sum(path.stat().st_size for path in shipped) < SIZE_LIMIT
