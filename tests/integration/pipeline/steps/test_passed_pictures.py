"""Pages that are one picture are passed on as they are, and drawn wherever that would show something else."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from PIL import Image

from pipeline.steps.pdf.page_images import PageImages
from pipeline.steps.pdf.renderer import RenderOptions
from queuemgr.flows.abort_signal import NEVER
from tests.pdf_builder import document, picture_of_text, scanned, stream, written

LINES = [
    ["First column opens here", "and it goes on below"] * 9,
    ["Second column is here", "and ends at last"] * 9,
]
SCAN = picture_of_text(LINES)
WHOLE = b"612 0 0 792 0 0"
NOTE = stream(b"0 g 0 0 400 500 re f", b"/Type /XObject /Subtype /Form /BBox [0 0 400 500]")
A_NOTE = b"/Annots [<< /Type /Annot /Subtype /Stamp /Rect [100 100 500 600] /F 4 /AP << /N 8 0 R >> >>]"
INVERTED = (
    b"/ColorSpace << /DefaultGray [/Separation /Black /DeviceGray "
    b"<< /FunctionType 2 /Domain [0 1] /C0 [1] /C1 [0] /N 1 >>] >>"
)


def jpeg(picture: Image.Image, **options: object) -> bytes:
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=80, **options)
    return out.getvalue()


def page_of(
    data: bytes, size: tuple[int, int] = SCAN.size, *, entries: bytes = b"", place: bytes = WHOLE,
    page: bytes = b"", before: bytes = b"", after: bytes = b"", colours: bytes = b"/DeviceGray",
    more: bytes = b"",
) -> bytes:  # fmt: skip
    """A page that draws this JPEG at this place; object 7 is a soft mask of its left half, object 8
    a black note."""
    described = b"/Type /XObject /Subtype /Image /Width %d /Height %d /BitsPerComponent 8 /ColorSpace " % size
    picture = b"<< %s%s /Filter /DCTDecode /Length %d %s >>\nstream\n%s\nendstream" % (
        described, colours, len(data), entries, data,
    )  # fmt: skip
    mask = Image.new("L", size, 0)
    mask.paste(255, (0, 0, size[0] // 2, size[1]))
    content = b"%s q %s cm /P Do Q %s" % (before, place, after)
    made = document(
        [content],
        b"/XObject << /P 6 0 R >> " + more,
        [picture, stream(mask.tobytes(), described + b"/DeviceGray"), NOTE],
    )
    return made.replace(b"/MediaBox", page + b" /MediaBox")


def sent(folder: Path, content: bytes, *formats: str) -> bytes:
    """The picture of page 1 as the endpoint would get it."""

    async def taken() -> bytes:
        render = RenderOptions(passes=formats)
        async with PageImages(written(folder, content), [1], 1, render, NEVER) as images:
            return (await images.take(0)).data

    return asyncio.run(taken())


def test_a_page_that_is_one_picture_is_passed_on_as_it_is(tmp_path: Path) -> None:
    data = jpeg(SCAN)
    assert sent(tmp_path, page_of(data), "jpeg") == data
    colour = jpeg(SCAN.convert("RGB"))
    assert sent(tmp_path, page_of(colour, colours=b"/DeviceRGB"), "jpeg") == colour
    drawn = sent(tmp_path, page_of(data))
    assert drawn != data and drawn.startswith(b"\xff\xd8")


def test_a_fax_is_passed_on_without_loss(tmp_path: Path) -> None:
    fax = SCAN.convert("1")
    found = sent(tmp_path, scanned([fax]), "jpeg", "png")
    with Image.open(io.BytesIO(found)) as picture:
        assert (picture.format, picture.convert("1").tobytes()) == ("PNG", fax.tobytes())
    assert sent(tmp_path, scanned([fax]), "jpeg").startswith(b"\xff\xd8")


EXIF = Image.Exif()
EXIF[274] = 6

CHANGED = {
    "decode array": page_of(jpeg(SCAN), entries=b"/Decode [1 0]"),
    "soft mask": page_of(jpeg(SCAN), entries=b"/SMask 7 0 R"),
    "colour key": page_of(jpeg(SCAN), entries=b"/Mask [0 9]"),
    "rotated page": page_of(jpeg(SCAN), page=b"/Rotate 90"),
    "upside down": page_of(jpeg(SCAN), place=b"-612 0 0 -792 612 792"),
    "mirrored": page_of(jpeg(SCAN), place=b"-612 0 0 792 612 0"),
    "on its side": page_of(jpeg(SCAN), place=b"0 792 -612 0 612 0"),
    "cropped": page_of(jpeg(SCAN), page=b"/CropBox [100 100 500 600]"),
    "a part of the page": page_of(jpeg(SCAN), place=b"400 0 0 500 50 50"),
    "something over it": page_of(jpeg(SCAN), after=b"0 0 300 300 re f"),
    "turned by its own note": page_of(jpeg(SCAN, exif=EXIF.tobytes())),
    "a note over it": page_of(jpeg(SCAN), page=A_NOTE),
    "clipped": page_of(jpeg(SCAN), before=b"0 0 300 400 re W n"),
    "half transparent": page_of(jpeg(SCAN), before=b"/G gs", more=b"/ExtGState << /G << /ca 0.2 >> >>"),
    "colours of its own": page_of(jpeg(SCAN), more=INVERTED),
    "a palette": page_of(jpeg(SCAN), colours=b"[/Indexed /DeviceGray 1 <ff00>]"),
    "inks": page_of(jpeg(SCAN.convert("CMYK")), colours=b"/DeviceCMYK"),
    "very large": page_of(jpeg(SCAN.resize((2600, 3364))), (2600, 3364)),
}


@pytest.mark.parametrize("how", CHANGED)
def test_a_page_that_changes_its_picture_is_drawn(tmp_path: Path, how: str) -> None:
    found = sent(tmp_path, CHANGED[how], "jpeg", "png")
    assert found == sent(tmp_path, CHANGED[how])
