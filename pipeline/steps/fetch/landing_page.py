"""The URL of the PDF that a publisher's page names, and what it says of the paper.

Pages indexed by Google Scholar have `<meta name="citation_pdf_url" content="…">`, and others of that kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from html.parser import HTMLParser
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

from pipeline.steps.http.character_references import without_long_numbers

MAX_PAGE = 256 * 1024
"""Bytes of a page that are read: its head, with room for scripts before the tags."""


class LandingPage(NamedTuple):
    """`pdf`: the PDF that a page names, absolute, http or https, without a fragment, or "". `stated`: what
    its tags say of the paper, by the fields of its metadata."""

    pdf: str
    stated: dict[str, Any]


def pdf_link(page: bytes, url: str) -> str:
    """The PDF named by the page at `url`."""
    return read_landing_page(page, url).pdf


def read_landing_page(page: bytes, url: str) -> LandingPage:
    """The page at `url` (after redirects). It may be cut off or broken."""
    reader = _Reader()
    # html.parser raises AssertionError for some broken declarations: what came before them counts.
    with suppress(AssertionError):
        reader.feed(without_long_numbers(page[:MAX_PAGE].decode("utf-8", "replace")))
    return LandingPage(_absolute(reader.pdf_url, reader.base, url), stated_by(reader.tags))


def stated_by(tags: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What `citation_…` tags say, by the names of our fields."""
    found = ((field, [tags[name][0] for name in names if tags.get(name)]) for field, names in TAGS.items())
    stated: dict[str, Any] = {field: values[0] for field, values in found if values}
    if year := YEAR.search(stated.get("year", "")[:MAX_DATE]):
        stated["year"] = year[0]
    first, last = (next(iter(tags.get(f"{name}page", ())), "") for name in ("first", "last"))
    together = [each for written in tags.get("authors", ()) for each in written.split(";")]
    words = [each for written in tags.get("keywords", ()) for each in SEPARATOR.split(written)]
    lists = {
        "authors": [given_first(name) for name in tags.get("author") or together],
        "keywords": [word.strip() for word in words if word.strip()],
        "page": "-".join(filter(None, (first, last))),
    }
    return stated | {name: value for name, value in lists.items() if value}


def given_first(name: str) -> str:
    """`Ada Lovewater` for `Lovewater, Ada`."""
    family, comma, given = name.partition(",")
    return f"{given.strip()} {family.strip()}" if comma and "," not in given else name.strip()


PREFIX = "citation_"
MAX_TAGS = 2_000
MAX_VALUE = 4_000
"""Characters of a tag's value."""

MAX_DATE = 40

TAGS: Mapping[str, tuple[str, ...]] = {
    "title": ("title",),
    "year": ("publication_date", "date", "year", "online_date"),
    "venue": ("journal_title", "conference_title", "inbook_title"),
    "volume": ("volume",),
    "issue": ("issue",),
    "publisher": ("publisher",),
    "doi": ("doi",),
    "arxiv_id": ("arxiv_id",),
    "abstract": ("abstract",),
}
"""The tags, without their prefix, that each field is read from, the best first."""

YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
SEPARATOR = re.compile(r"[;,]")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pdf_url = self.base = ""
        self.tags: dict[str, list[str]] = {}
        self._count = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: (value or "").strip() for name, value in attrs}
        if tag == "meta":
            name = values.get("name") or values.get("property") or ""
            if name.lower() == "citation_pdf_url":
                self.pdf_url = self.pdf_url or values.get("content", "")
            elif name.lower().startswith(PREFIX) and self._count < MAX_TAGS:
                self._count += 1
                kept = self.tags.setdefault(name.lower().removeprefix(PREFIX), [])
                kept.append(values.get("content", "")[:MAX_VALUE])
        elif tag == "base":
            self.base = self.base or values.get("href", "")


def _absolute(link: str, base: str, url: str) -> str:
    if not link:
        return ""
    try:
        found = urlsplit(urljoin(urljoin(url, base), link))
    except ValueError:  # brackets without an IPv6 address
        return ""
    return found._replace(fragment="").geturl() if found.scheme in ("http", "https") else ""
