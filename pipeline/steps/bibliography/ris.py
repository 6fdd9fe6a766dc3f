"""Entries as RIS, with the tags that Zotero and JabRef write. Pure.

A value is one line, so none can begin a tag or an entry of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pipeline.steps.bibliography.entry import Entry, Kind, Name

TYPES: Mapping[Kind, str] = {"article": "JOUR", "conference": "CONF", "preprint": "UNPB", "other": "GEN"}

RANGE = re.compile(r"([\w.]+)\s*[-\u2013\u2014]+\s*([\w.]+)")


def ris(entry: Entry) -> str:
    """One entry, with an empty line after it."""
    lines = "".join(f"{tag}  - {value}\r\n" for tag, value in fields(entry) if value)
    return f"TY  - {TYPES[entry.kind]}\r\n{lines}ER  - \r\n\r\n"


def fields(entry: Entry) -> Iterator[tuple[str, str]]:
    """Tags and values."""
    first, last = pages(entry.page)
    yield "ID", entry.key
    yield "TI", entry.title
    yield from (("AU", author(name)) for name in entry.authors)
    yield "PY", str(entry.year or "")
    yield "T2", entry.venue
    yield "VL", entry.volume
    yield "IS", entry.issue
    yield "SP", first
    yield "EP", last
    yield "PB", entry.publisher or ("arXiv" if entry.kind == "preprint" else "")
    yield "DO", entry.doi
    yield "AN", f"arXiv:{entry.arxiv_id}" if entry.arxiv_id else ""
    yield "UR", entry.url
    yield "AB", entry.abstract
    yield from (("KW", word) for word in entry.keywords)
    yield "DP", entry.catalogue
    yield "N1", entry.note


def author(name: Name) -> str:
    return f"{name.family}, {name.given}" if name.given else name.family


def pages(text: str) -> tuple[str, str]:
    """The first page and the last."""
    found = RANGE.fullmatch(text)
    return (found[1], found[2]) if found else (text, "")
