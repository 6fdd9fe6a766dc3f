"""Lists of pages as typed: `1,4-6`. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from queuemgr import BadInput

ONE_OR_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


def parse_ranges(text: str) -> list[range]:
    """The ranges of a list, as typed. Raises `BadInput` quoting what is wrong."""
    return [one_range(part.strip(), text) for part in text.split(",")]


def one_range(part: str, text: str) -> range:
    if not part:
        raise BadInput(f"page list {text!r}: an entry is empty")
    found = ONE_OR_RANGE.fullmatch(part)
    if found is None:
        raise BadInput(f"page list {text!r}: {part!r} is neither a page nor a range such as 4-6")
    first, last = int(found[1]), int(found[2] or found[1])
    if first == 0:
        raise BadInput(f"page list {text!r}: pages are numbered from 1")
    if last < first:
        raise BadInput(f"page list {text!r}: {part!r} is reversed; write {last}-{first}")
    return range(first, last + 1)


def pages_of(text: str, count: int) -> Sequence[int]:
    """The listed pages, each once and in page order. Raises `BadInput` for one that does not exist."""
    named = parse_ranges(text)
    beyond = next((pages[-1] for pages in named if pages[-1] > count), None)
    if beyond is not None:
        total = "1 page" if count == 1 else f"{count} pages"
        raise BadInput(f"page list {text!r}: there is no page {beyond}, the document has {total}")
    return sorted(set().union(*named))
