"""Clean text from outside, so that databases, files and our page marks can hold it. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

# pypdf leaves these in 57 of 91 papers; full NFKC would also turn a superscript 2 into a 2.
LIGATURES = {"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl"}
LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
LINE_HYPHEN = re.compile("[\x02\ufffe]\n")
"""PDFium's mark for a hyphen at a line break; it occurs in 90 of 91 papers."""
LONE_SURROGATE = re.compile("[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")
SURROGATES = re.compile("[\ud800-\udfff]")
UNWANTED = re.compile("[\x00-\x08\x0e-\x1f\x7f\x80-\x84\x86-\x9f\u00ad\ufdd0-\ufdef\ufffe\uffff]")
LATEXIT = re.compile(r"<latexit\b[^<>]*>(?:[^<]*</latexit>|[A-Za-z0-9+/=\n]*\Z)")
"""The source of a formula that a drawing program hides in a figure, packed, and up to a third of a paper; the
last of a page may be cut."""

FORGED_MARK = re.compile(r"\[(\s*PAGE\s+\d+\s*)\]", re.IGNORECASE)


class CleanText(NamedTuple):
    """Text that PostgreSQL, UTF-8 and our page marks can hold, and how many characters changed."""

    text: str
    changed: int


def clean(text: str) -> CleanText:
    """Clean a text.

    Control characters (1 in 18 papers has a NUL) and soft hyphens are removed, surrogate pairs become
    the character they encode, lone ones U+FFFD, words that PDFium marks as broken over two lines are
    joined, and a `[PAGE 7]` of the document's own becomes `(PAGE 7)`. Hidden `<latexit>` blocks are removed.
    """
    text, lone = without_surrogates(text)
    text = LINE_HYPHEN.sub("", LINE_ENDS.sub("\n", text))
    length = len(text)
    text = LATEXIT.sub("", text)
    hidden = length - len(text)
    text, removed = UNWANTED.subn("", text)
    for ligature, characters in LIGATURES.items():
        text = text.replace(ligature, characters)
    text, forged = FORGED_MARK.subn(r"(\1)", text)
    return CleanText(text, lone + hidden + removed + forged)


def without_surrogates(text: str) -> CleanText:
    try:
        text.encode()  # much faster than to look for them
        return CleanText(text, 0)
    except UnicodeEncodeError:
        pass
    paired = LONE_SURROGATE.sub("\ufffd", text)
    if SURROGATES.search(paired):
        paired = paired.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    return CleanText(paired, len(SURROGATES.findall(text)))
