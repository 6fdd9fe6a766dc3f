"""The entries of a PDF's XMP. Pure.

It is read by patterns, without an XML parser: XML may define entities that grow without bound.
"""

from __future__ import annotations

import re

from pipeline.steps.http.character_references import unescaped
from pipeline.steps.metadata.embedded_names import MAX_VALUE, MAX_XMP

ITEM = re.compile(r"<rdf:li[^>]{0,200}>([^<]{1,4000})</rdf:li>")


def xmp_entries(xmp: str) -> dict[str, str]:
    """The entries of XMP, named as those of an information dictionary."""
    text = xmp[:MAX_XMP]
    people = list(map(unescaped, ITEM.findall(inside(text, "dc:creator"))))
    found = {
        "title": first_item(text, "dc:title"),
        "author": "; ".join(people),
        "doi": doi_entry(text),
        "venue": inside(text, "prism:publicationName"),
        "subject": first_item(text, "dc:description"),
    }
    return {name: unescaped(value)[:MAX_VALUE] for name, value in found.items() if value.strip()}


def doi_entry(text: str) -> str:
    for name in ("prism:doi", "pdfx:doi", "crossmark:DOI", "dc:identifier"):
        if value := inside(text, name):
            return value.removeprefix("doi:").strip()
    return ""


def first_item(text: str, name: str) -> str:
    items = ITEM.findall(inside(text, name))
    return str(items[0]) if items else ""


def inside(text: str, name: str) -> str:
    """What is between the first `<name>` and its end; also of an attribute of that name."""
    start = text.find(f"<{name}")
    if start >= 0:
        begin, end = text.find(">", start), text.find(f"</{name}>", start)
        return text[begin + 1 : end] if 0 <= begin < end else ""
    start = text.find(f'{name}="')
    if start < 0:
        return ""
    begin = start + len(name) + 2
    end = text.find('"', begin)
    return text[begin:end] if end >= 0 else ""
