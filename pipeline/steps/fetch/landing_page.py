"""The URL of the PDF that a publisher's page names.

Pages indexed by Google Scholar have `<meta name="citation_pdf_url" content="…">`.
"""

from __future__ import annotations

from contextlib import suppress
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

from pipeline.steps.http.character_references import without_long_numbers

MAX_PAGE = 256 * 1024
"""Bytes of a page that are read: its head, with room for scripts before the tags."""


def pdf_link(page: bytes, url: str) -> str:
    """The PDF named by the page at `url` (after redirects): absolute, http or https, no fragment;
    empty if there is none. The page may be cut off or broken."""
    reader = _Reader()
    # html.parser raises AssertionError for some broken declarations: what came before them counts.
    with suppress(AssertionError):
        reader.feed(without_long_numbers(page[:MAX_PAGE].decode("utf-8", "replace")))
    return _absolute(reader.pdf_url, reader.base, url)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pdf_url = self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: (value or "").strip() for name, value in attrs}
        if tag == "meta":
            name = values.get("name") or values.get("property") or ""
            if name.lower() == "citation_pdf_url":
                self.pdf_url = self.pdf_url or values.get("content", "")
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
