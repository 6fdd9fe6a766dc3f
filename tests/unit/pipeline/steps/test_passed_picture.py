"""Which pictures are passed on as the page: none that is damaged, none that something is laid over."""

from __future__ import annotations

import io

import pytest
from PIL import Image
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, NameObject

from pipeline.steps.pdf.page_dictionaries import described
from pipeline.steps.pdf.passed_picture import looks_like, unpacked
from tests.pdf_builder import scanned


def jpeg(width: int, height: int, exif: bytes = b"") -> bytes:
    out = io.BytesIO()
    Image.linear_gradient("L").resize((width, height)).save(out, "JPEG", exif=exif)
    return out.getvalue()


@pytest.mark.parametrize("size", [(1, 1), (7, 400), (400, 7), (8, 8)])
def test_a_narrow_jpeg_is_made_smaller(size: tuple[int, int]) -> None:
    found = unpacked(jpeg(*size), "L", size)
    assert found is not None and min(found.small.size) >= 1


WHOLE = jpeg(64, 64)
DAMAGED = [WHOLE[:end] for end in range(0, len(WHOLE) - 20, 50)]
EXIF = [
    b"II", b"II*\0", b"II*\0\x08\0\0", b"MM\0*\0\0\0\x08\0", b"XX*\0\x08\0\0\0",
    b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01",
]  # fmt: skip


def test_a_damaged_jpeg_is_drawn_instead() -> None:
    small = Image.new("L", (40, 40), 255)
    for data in DAMAGED:
        assert unpacked(data, "L", (64, 64)) is None
        assert not looks_like(data, small, (64, 64))


@pytest.mark.parametrize("exif", EXIF)
def test_a_damaged_exif_fails_no_page(exif: bytes) -> None:
    data = jpeg(64, 64, b"Exif\0\0" + exif)
    passed, small = unpacked(data, "L", (64, 64)), Image.linear_gradient("L").resize((40, 40))
    assert (passed is not None) == looks_like(data, small, (64, 64))


def test_a_picture_too_large_to_be_unpacked_is_drawn_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert unpacked(WHOLE, "L", (64, 64)) is None
    assert not looks_like(WHOLE, Image.new("L", (40, 40)), (64, 64))


@pytest.mark.parametrize("indirect", [False, True])
@pytest.mark.parametrize(
    ("kinds", "unchanged"),
    [((), True), (("Link",), True), (("FreeText",), False), (("Widget",), False), (("Link", "Stamp"), False)],
)
def test_a_page_under_a_text_a_stamp_or_a_field_is_no_picture(
    kinds: tuple[str, ...], unchanged: bool, indirect: bool
) -> None:
    writer = PdfWriter(io.BytesIO(scanned([Image.new("L", (60, 80), 255)])))
    page = writer.pages[0]
    notes = ArrayObject(
        writer._add_object(DictionaryObject({NameObject("/Subtype"): NameObject(f"/{kind}")}))
        for kind in kinds
    )
    page[NameObject("/Annots")] = writer._add_object(notes) if indirect else notes
    assert described(page).unchanged is unchanged
