"""The references in the TEI that GROBID's `processReferences` answers with. Pure.

https://grobid.readthedocs.io/en/latest/Grobid-service/ describes the answer: `biblStruct` elements, with what
the paper prints in a note of type `raw_reference`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from xml.etree import ElementTree

from pipeline.steps.extract.reference import Reference
from pipeline.steps.extract.reference_fields import LONGEST_READ, MARKER, Divided, confidence
from pipeline.steps.extract.reference_ids import arxiv_id_of, complete, doi_of, is_incomplete, trimmed
from pipeline.steps.http.bounded_xml import root_of
from pipeline.steps.metadata.letters_only import squeezed
from pipeline.steps.resolve.sources import json_fields
from queuemgr import StepFailed

NAMESPACES = {"": "http://www.tei-c.org/ns/1.0"}

MOST = 3_000
"""Entries that are read of one answer: no paper has more."""

ENTRIES = "./text/back/div/listBibl/biblStruct"
"""One path, and none of them within another: each element is read once."""

ALIKE = 40
"""Letters at their beginnings by which an entry is known to be one that we have read."""

VERSION = re.compile(r"\d{1,4}\.\d{1,4}(?:\.\d{1,4})?(?:-[A-Za-z]{1,12})?")


def references_in(body: bytes) -> tuple[list[Reference], str]:
    """The entries of an answer, in order, and the version of GROBID, or "".

    Raises StepFailed("bad_answer") if it is no TEI.
    """
    root = root_of(body, "GROBID", "a TEI document")
    if root.tag != f"{{{NAMESPACES['']}}}TEI":
        raise StepFailed("bad_answer", "GROBID sent XML that is not TEI")
    entries = islice(root.findall(ENTRIES, NAMESPACES), MOST)
    found = [each for place, entry in enumerate(entries, 1) if (each := reference(entry, place)).text]
    application = root.find("./teiHeader/encodingDesc/appInfo/application", NAMESPACES)
    return found, "" if application is None else version_in(application.get("version", ""))


def version_in(text: str) -> str:
    """The first version number at the beginning of a text; "" if there is none."""
    match = VERSION.search(text[:200])
    return match[0] if match else ""


def reference(entry: ElementTree.Element, place: int) -> Reference:
    title = text_of(entry, "./analytic/title")
    book = text_of(entry, "./monogr/title")
    publisher = text_of(entry, "./monogr/imprint/publisher")
    venue, title = (book or publisher, title) if title else (publisher, book)
    authors = tuple(islice(names(entry), json_fields.MAX_AUTHORS))
    year = year_of(entry)
    raw = text_of(entry, "./note[@type='raw_reference']", LONGEST_READ)
    doi = doi_in(text_of(entry, ".//idno[@type='DOI']"), raw)
    text = raw or ". ".join(filter(None, ["; ".join(authors), title, venue, str(year or ""), doi]))
    arxiv_id = text_of(entry, ".//idno[@type='arXiv']").lower().removeprefix("arxiv:")
    divided = Divided(authors, title, "", certain=True)
    return Reference(
        text=text,
        doi=doi,
        arxiv_id=arxiv_id_of(f"arXiv:{arxiv_id}") or arxiv_id_of(raw),
        number=place,
        authors=authors,
        title=title,
        venue=venue,
        year=year,
        confidence=confidence(divided, title, venue, year),
    )


def doi_in(stated: str, raw: str) -> str:
    """The DOI that GROBID states, or the printed one that goes on where that ends; "" if it is cut off."""
    printed, doi = doi_of([raw]), trimmed(json_fields.doi(stated))
    if printed.lower().startswith(doi):
        return printed
    return "" if is_incomplete(doi) else complete(doi)


def names(entry: ElementTree.Element) -> Iterator[str]:
    """Those of the work, else those of the book it is: `Family, Given`, or an organisation's."""
    people = entry.findall("./analytic/author", NAMESPACES) or entry.findall("./monogr/author", NAMESPACES)
    for person in people:
        given = [json_fields.line(each.text) for each in person.findall("./persName/forename", NAMESPACES)]
        family = text_of(person, "./persName/surname")
        name = family and ", ".join(filter(None, [family, " ".join(filter(None, given))]))
        if name := name or text_of(person, "./orgName"):
            yield name[: json_fields.MAX_NAME]


def year_of(entry: ElementTree.Element) -> int | None:
    date = entry.find("./monogr/imprint/date", NAMESPACES)
    return None if date is None else json_fields.year(date.get("when") or date.text or "")


def text_of(entry: ElementTree.Element, path: str, longest: int = json_fields.MAX_TITLE) -> str:
    found = entry.find(path, NAMESPACES)
    return "" if found is None else json_fields.line("".join(found.itertext()), longest)


def with_pages(found: Sequence[Reference], own: Sequence[Reference]) -> list[Reference]:
    """The entries with the pages where we have read the same ones."""
    pages = {key: each.page for each in own for key in keys_of(each)}
    return [
        replace(each, page=next((pages[key] for key in keys_of(each) if key in pages), None))
        for each in found
    ]


def keys_of(entry: Reference) -> Iterator[str]:
    if entry.doi:
        yield entry.doi.lower()
    yield squeezed(MARKER.sub("", entry.text[: 4 * ALIKE]))[:ALIKE]
