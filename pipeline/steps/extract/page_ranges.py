"""Lists of pages as people type them: `1,4-6`. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from queuemgr import BadInput

ONE_OR_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


def ranges(text: str) -> list[range]:
    """The ranges of a list, in the order they were typed. Raises `BadInput` quoting what is wrong."""
    return [one_range(part.strip(), text) for part in text.split(",")]


def one_range(part: str, text: str) -> range:
    if not part:
        raise BadInput(f"page list {text!r}: there is nothing between two commas, or at an end")
    found = ONE_OR_RANGE.fullmatch(part)
    if found is None:
        raise BadInput(f"page list {text!r}: {part!r} is neither a page nor a range such as 4-6")
    first, last = int(found[1]), int(found[2] or found[1])
    if first == 0:
        raise BadInput(f"page list {text!r}: pages are numbered from 1")
    if last < first:
        raise BadInput(f"page list {text!r}: {part!r} runs backwards; write {last}-{first}")
    return range(first, last + 1)


def pages_of(text: str, count: int) -> Sequence[int]:
    """The pages named, each once and in page order. Raises `BadInput` for one that is not there."""
    named = ranges(text)
    beyond = next((pages[-1] for pages in named if pages[-1] > count), None)
    if beyond is not None:
        there = "1 page" if count == 1 else f"{count} pages"
        raise BadInput(f"page list {text!r}: there is no page {beyond}, the document has {there}")
    return sorted(set().union(*named))
