"""PDFs made to order, byte by byte: plain ones, scans, and such as no program should write."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont


def pdf_of(objects: Sequence[bytes], root: int = 1) -> bytes:
    """A file of these objects, numbered from 1, with a correct table of where each begins."""
    out = bytearray(b"%PDF-1.7\n")
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root %d 0 R >>\n" % (len(objects) + 1, root)
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % table)


def stream(content: bytes, extra: bytes = b"") -> bytes:
    """A deflated stream object."""
    packed = zlib.compress(content, 9)
    head = b"<< /Length %d /Filter /FlateDecode %s >>" % (len(packed), extra)
    return head + b"\nstream\n" + packed + b"\nendstream"


def document(
    contents: Sequence[bytes], resources: bytes = b"", more: Sequence[bytes] = (), fonts: bytes = b"/F1 3 0 R"
) -> bytes:
    """One page per content stream; font F1 is Helvetica. `more` objects come last, from number
    `4 + 2 * len(contents)` on."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * i) for i in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(contents), kids),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for i, content in enumerate(contents):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << %s >> %s >> >>" % (5 + 2 * i, fonts, resources)
        )
        objects.append(stream(content))
    return pdf_of([*objects, *more])


def text_content(*lines: str) -> bytes:
    """A content stream that writes the lines one below the other."""
    shown = b" T* ".join(b"(%s) Tj" % escaped(line) for line in lines)
    return b"BT /F1 12 Tf 14 TL 72 720 Td " + shown + b" ET"


def escaped(line: str) -> bytes:
    raw = line.encode("cp1252")
    return raw.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def written(folder: Path, content: bytes, name: str = "made.pdf") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def operators(count: int = 900_000) -> bytes:
    """A content stream of a few kilobytes that shows a letter this often: minutes of work."""
    return b"BT /F1 1 Tf " + b"(a) Tj " * count + b"ET"


def nested_forms(width: int = 12, depth: int = 6) -> bytes:
    """A page whose form draws 12 forms, each of which draws 12: three million of the last."""
    first = 6
    more = [
        stream(
            b"/X%d Do " % (level + 1) * width,
            b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] "
            b"/Resources << /XObject << /X%d %d 0 R >> >>" % (level + 1, first + level + 1),
        )
        for level in range(depth)
    ]
    more.append(
        stream(
            b"BT /F1 1 Tf (deep) Tj ET",
            b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /Font << /F1 3 0 R >> >>",
        )
    )
    return document([b"/X0 Do"], b"/XObject << /X0 %d 0 R >>" % first, more)


def self_drawing_form() -> bytes:
    """A form that draws itself."""
    form = stream(
        b"/X0 Do", b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X0 6 0 R >> >>"
    )
    return document([b"/X0 Do"], b"/XObject << /X0 6 0 R >>", [form])


def slow_to_draw(pages: int, count: int = 300_000) -> bytes:
    """Pages without text that are all filled so often: some kilobytes, and minutes to draw each."""
    kids = b" ".join(b"%d 0 R" % number for number in range(4, 4 + pages))
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 3 0 R /Resources << >> >>"
    tree = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (pages, kids)
    content = stream(b"0 0 612 792 re f " * count)
    return pdf_of([b"<< /Type /Catalog /Pages 2 0 R >>", tree, content, *[page] * pages])


def long_string(length: int = 70_000_000) -> bytes:
    """One string of so many letters, some 70 KB when deflated."""
    return document([b"BT /F1 12 Tf (" + b"a" * length + b") Tj ET"])


def nested_array(depth: int = 100_000, before: bytes = b"") -> bytes:
    """An array in an array, and so on, never closed."""
    return document([before + b" BT /F1 12 Tf " + b"[" * depth + b" TJ ET"])


def nested_dictionaries(depth: int = 20_000) -> bytes:
    """A page's resources as dictionaries within dictionaries, well closed."""
    return document([text_content("deep")], b"/Deep " + b"<< /D " * depth + b"1" + b" >>" * depth)


def cut_array() -> bytes:
    """A list of pages that ends with the file, in the midst of the array; no table either."""
    whole = document([text_content("One"), text_content("Two")])
    head, _, tail = whole.partition(b"2 0 obj")
    pages, _, rest = tail.partition(b"endobj\n")
    body = rest[: rest.index(b"xref\n")]
    return head + body + b"2 0 obj" + pages[: pages.index(b"]")] + b" 6 0 R" * 1000


def giant_picture(side: int = 100_000) -> bytes:
    """A picture of a hundred bytes that says it is so many pixels wide and high, and its inline kin."""
    pixels = b"/Width %d /Height %d /ColorSpace /DeviceRGB /BitsPerComponent 8" % (side, side)
    picture = stream(b"x" * 100, b"/Type /XObject /Subtype /Image " + pixels)
    inline = b"BI /W %d /H %d /CS /RGB /BPC 8 ID %s EI" % (side, side, b"x" * 100)
    content = b"q 612 0 0 792 0 0 cm /X0 Do Q " + inline
    return document([content], b"/XObject << /X0 6 0 R >>", [picture])


def packed_gigabyte() -> bytes:
    """A content stream of a megabyte that unpacks to a gigabyte of spaces."""
    packer, megabyte = zlib.compressobj(1), b" " * (1 << 20)
    packed = b"".join(packer.compress(megabyte) for _ in range(1024)) + packer.flush()
    made = document([b""])
    at = made.index(b"5 0 obj")
    head = b"5 0 obj\n<< /Length %d /Filter /FlateDecode >>\nstream\n" % len(packed)
    return made[:at] + head + packed + b"\nendstream\nendobj\n" + made[made.index(b"xref\n") :]


def same_content_again(times: int = 20_000) -> bytes:
    """A page of one small content stream, this often: as much memory as forty million letters take."""
    made = document([b"BT /F1 1 Tf " + b"(a) Tj " * 2_000 + b"ET"])
    return made.replace(b"/Contents 5 0 R", b"/Contents [" + b"5 0 R " * times + b"]")


def empty_pages(count: int = 100_000) -> bytes:
    """So many pages with nothing on them, not even an empty content stream."""
    kids = b" ".join(b"%d 0 R" % number for number in range(3, 3 + count))
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] >>"
    tree = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (count, kids)
    return pdf_of([b"<< /Type /Catalog /Pages 2 0 R >>", tree, *[page] * count])


def looping_page_tree(*lines: str) -> bytes:
    """One page of text, and a list of pages that names itself as one of them."""
    whole = document([text_content(*lines)])
    return whole.replace(b"/Kids [4 0 R]", b"/Kids [4 0 R 2 0 R]")


def in_columns(*columns: Sequence[str]) -> bytes:
    """A content stream with the lines of each column below each other, in small print."""
    parts = []
    for at, lines in enumerate(columns):
        shown = b" T* ".join(b"(%s) Tj" % escaped(line) for line in lines)
        left = 50 + at * 512 // len(columns)
        parts.append(b"BT /F1 8 Tf 10 TL %d 740 Td %s ET" % (left, shown))
    return b" ".join(parts)


def picture_of_text(
    columns: Sequence[Sequence[str]], width: int = 1275, height: int = 1650, size: int = 30
) -> Image.Image:
    """A page as a scanner sees it (150 dpi), with its lines in so many columns."""
    page = Image.new("L", (width, height), 255)
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(size)
    for at, lines in enumerate(columns):
        for row, line in enumerate(lines):
            place = (100 + at * (width - 150) / len(columns), 120 + row * size * 1.6)
            draw.text(place, line, font=font, fill=0)
    return page


def scanned(pages: Sequence[Image.Image]) -> bytes:
    """A PDF of nothing but pictures, one a page."""
    out = io.BytesIO()
    pages[0].save(out, "PDF", save_all=True, append_images=list(pages[1:]), resolution=150)
    return out.getvalue()


def font_without_map(ordering: str, codes: Sequence[int]) -> bytes:
    """A page in a font that says which glyphs it draws, not which letters they are.

    With `Japan1` the glyph numbers are those of Adobe's Japanese collection, so a reader that
    knows the collection can name the letters (843 is HIRAGANA A); with `Identity` nobody can.
    """
    shown = b"".join(b"%04x" % code for code in codes)
    content = b"BT /F2 12 Tf 72 720 Td <" + shown + b"> Tj ET"
    more = [
        b"<< /Type /Font /Subtype /Type0 /BaseFont /Made /Encoding /Identity-H /DescendantFonts [7 0 R] >>",
        b"<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Made /DW 1000 /FontDescriptor 8 0 R "
        b"/CIDSystemInfo << /Registry (Adobe) /Ordering (%s) /Supplement 2 >> >>" % ordering.encode(),
        b"<< /Type /FontDescriptor /FontName /Made /Flags 6 /FontBBox [0 -200 1000 900] "
        b"/ItalicAngle 0 /Ascent 800 /Descent -200 /CapHeight 700 /StemV 69 >>",
    ]
    return document([content], more=more, fonts=b"/F1 3 0 R /F2 6 0 R")


def font_with_map(pieces: Sequence[tuple[str, float, float]], *, vertical: bool = False) -> bytes:
    """A page that draws pieces of text, of any script, at their places; its font names its letters."""
    codes = {letter: number for number, letter in enumerate(sorted(set("".join(p[0] for p in pieces))), 1)}
    drawn = " ".join(
        f"BT /F2 12 Tf 1 0 0 1 {x:g} {y:g} Tm <{''.join(f'{codes[c]:04x}' for c in text)}> Tj ET"
        for text, x, y in pieces
    )
    named = " ".join(f"<{code:04x}> <{c.encode('utf-16-be').hex()}>" for c, code in codes.items())
    names = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Made def /CMapType 2 def "
        "1 begincodespacerange <0000> <ffff> endcodespacerange "
        f"{len(codes)} beginbfchar {named} endbfchar endcmap end end"
    )
    more = [
        b"<< /Type /Font /Subtype /Type0 /BaseFont /Made /Encoding /Identity-%s /DescendantFonts [7 0 R] "
        b"/ToUnicode 9 0 R >>" % (b"V" if vertical else b"H"),
        b"<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Made /DW 600 /FontDescriptor 8 0 R "
        b"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>",
        b"<< /Type /FontDescriptor /FontName /Made /Flags 6 /FontBBox [0 -200 1000 900] "
        b"/ItalicAngle 0 /Ascent 800 /Descent -200 /CapHeight 700 /StemV 69 >>",
        stream(names.encode()),
    ]
    return document([drawn.encode()], more=more, fonts=b"/F1 3 0 R /F2 6 0 R")
