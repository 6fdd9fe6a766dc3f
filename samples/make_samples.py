"""Make every sample document again, byte for byte.

This is a development tool; Sluicegate itself never runs it. It needs the packages of the
``samples`` extra (typst 0.15.2, pillow 13.0.0 and pypdf 7.1.1; other versions work, but may
lay a page out differently or compress it differently) and, for ``cjk.pdf`` alone, the free
font family Noto Serif CJK SC (SIL Open Font License; Debian package ``fonts-noto-cjk``).

    python samples/make_samples.py                     # make all samples
    python samples/make_samples.py long.pdf            # make some of them
    python samples/make_samples.py --check             # compare, write nothing
    python samples/make_samples.py --cjk-fonts FOLDER  # where the CJK font lives

The folder of the font may also be given by ``SLUICEGATE_CJK_FONTS``. The text of the samples
is in ``samples/source``; all other fonts come with the typst package. Dates, file
identifiers and the noise of the scan are fixed, so two runs give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import typst
from PIL import Image, ImageChops, ImageFilter
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, ByteStringObject

SAMPLES = Path(__file__).resolve().parent
SOURCE = SAMPLES / "source"
MADE_ON = datetime(2024, 6, 3, 9, 0, tzinfo=UTC)
CJK_FAMILY = "Noto Serif CJK SC"
CJK_FOLDER = "/usr/share/fonts/opentype/noto"
PASSWORD = "heron-gate"  # noqa: S105 - printed in the README; opens a sample, protects nothing
SCAN_DPI = 150
SCAN_SKEWS = (0.7, -0.5)


class SampleError(Exception):
    """A sample cannot be made; the message says what is missing."""


class FixedIdWriter(PdfWriter):
    """A PdfWriter whose file identifier does not change from run to run."""

    def generate_file_identifiers(self) -> None:
        identifier = ByteStringObject(keystream("file identifier", 16))
        self._ID = ArrayObject((identifier, identifier))


def keystream(seed: str, length: int) -> bytes:
    """Bytes that look random and are the same on every run."""
    return hashlib.shake_256(seed.encode()).digest(length)


def typeset(name: str, fonts: typst.Fonts | None = None, family: str = "") -> bytes:
    """Compile one Typst source with the fonts that ship with typst, and no others."""
    return typst.compile(
        SOURCE / name,
        root=SOURCE,
        font_paths=fonts or typst.Fonts(include_system_fonts=False),
        ignore_system_fonts=True,
        sys_inputs={"family": family},
        timestamp=MADE_ON,
        pdf_tags=False,
    )


def cjk_fonts(folder: Path) -> typst.Fonts:
    """The fonts in folder, which must include the CJK family that cjk.typ asks for."""
    fonts = typst.Fonts(include_system_fonts=False, font_paths=[folder])
    if CJK_FAMILY not in fonts.families():
        raise SampleError(
            f"cjk.pdf needs the font {CJK_FAMILY}, and {folder} does not hold it. On Debian: "
            "apt-get install fonts-noto-cjk. Elsewhere: give the folder of the font files "
            "with --cjk-fonts or SLUICEGATE_CJK_FONTS."
        )
    return fonts


def render_pages(name: str) -> list[Image.Image]:
    """The pages of one Typst source as grey pictures at the resolution of the scan."""
    compiler = typst.Compiler(SOURCE / name, root=SOURCE, font_paths=typst.Fonts(include_system_fonts=False))
    made = compiler.compile(format="png", ppi=SCAN_DPI, timestamp=MADE_ON)
    pictures = made if isinstance(made, list) else [made or b""]
    return [Image.open(io.BytesIO(picture)).convert("L") for picture in pictures]


def age(page: Image.Image, number: int) -> Image.Image:
    """Make a clean page look scanned: skewed, a little soft, grey paper, a dark edge, noise."""
    skewed = page.rotate(SCAN_SKEWS[number % 2], Image.Resampling.BICUBIC, fillcolor=255)
    soft = skewed.filter(ImageFilter.GaussianBlur(0.55))
    paper = soft.point([int(26 + value * 0.83) for value in range(256)])
    shadow = Image.linear_gradient("L").rotate(90).resize(page.size)
    edge = shadow.point([int(max(0, 14 - value) * 3) for value in range(256)])
    shaded = ImageChops.subtract(paper, edge)
    width, height = page.width // 2, page.height // 2
    grain = Image.frombytes("L", (width, height), keystream(f"grain {number}", width * height))
    coarse = grain.resize(page.size, Image.Resampling.BILINEAR)
    return ImageChops.add(shaded, coarse.point([value // 26 for value in range(256)]), offset=-5)


def make_scanned() -> bytes:
    """Pictures of pages in a PDF, with no text layer."""
    pages = [age(page, number) for number, page in enumerate(render_pages("scanned.typ"))]
    moment = time.gmtime(MADE_ON.timestamp())
    out = io.BytesIO()
    pages[0].save(
        out,
        "PDF",
        save_all=True,
        append_images=pages[1:],
        resolution=SCAN_DPI,
        quality=34,
        title="On Reading a Stage Board in Poor Light (scan)",
        creationDate=moment,
        modDate=moment,
    )
    return out.getvalue()


def make_encrypted() -> bytes:
    """A PDF that nobody can read without the user password."""
    writer = FixedIdWriter(clone_from=PdfReader(io.BytesIO(typeset("encrypted.typ"))))
    writer.encrypt(PASSWORD, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def make_damaged() -> bytes:
    """The first part of a PDF, with everything after its first line garbled."""
    whole = typeset("two-column.typ")[:24_000]
    start = whole.index(b"\n") + 1
    noise = keystream("damage", len(whole) - start)
    garbled = bytes(a ^ b for a, b in zip(whole[start:], noise, strict=True))
    return whole[:start] + garbled


def make_html() -> bytes:
    """An HTML page that will be saved under a PDF name."""
    return (SOURCE / "html-named.html").read_bytes()


def makers(folder: Path) -> dict[str, Callable[[], bytes]]:
    """Every sample, by its path under samples/, with the function that makes it."""
    return {
        "two-column.pdf": lambda: typeset("two-column.typ"),
        "author-year.pdf": lambda: typeset("author-year.typ"),
        "scanned.pdf": make_scanned,
        "long.pdf": lambda: typeset("long.typ"),
        "cjk.pdf": lambda: typeset("cjk.typ", cjk_fonts(folder), CJK_FAMILY),
        "troubled/encrypted.pdf": make_encrypted,
        "troubled/damaged.pdf": make_damaged,
        "troubled/html-named.pdf": make_html,
    }


def differs(path: Path, data: bytes) -> bool:
    """Whether the sample at path is missing or is not exactly data."""
    return not path.is_file() or path.read_bytes() != data


def put(path: Path, data: bytes) -> None:
    """Write one sample, making its folder when needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def run(names: list[str], folder: Path, check: bool) -> list[str]:
    """Make the named samples and return those that differed from what was on disk."""
    known = makers(folder)
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise SampleError(f"no such sample: {', '.join(unknown)}; there are {', '.join(known)}")
    changed = []
    for name in names or list(known):
        data = known[name]()
        if differs(SAMPLES / name, data):
            changed.append(name)
            if not check:
                put(SAMPLES / name, data)
        sys.stdout.write(f"{len(data):>8}  {name}{'  (differs)' if name in changed else ''}\n")
    return changed


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Make the sample documents of Sluicegate.")
    parser.add_argument("names", nargs="*", help="samples to make, such as long.pdf; default all")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on difference")
    parser.add_argument(
        "--cjk-fonts",
        type=Path,
        default=Path(os.environ.get("SLUICEGATE_CJK_FONTS", CJK_FOLDER)),
        help=f"folder that holds {CJK_FAMILY} (default: %(default)s)",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Make or check the samples; 0 when all is well, 1 when a check fails, 2 on an error."""
    options = parse(arguments)
    try:
        changed = run(options.names, options.cjk_fonts, options.check)
    except SampleError as error:
        sys.stderr.write(f"make_samples: {error}\n")
        return 2
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
