"""What a publisher's page says of its paper: the address of the PDF, and the page's title.

Pages that Google Scholar indexes carry `<meta name="citation_pdf_url" content="…">`.
"""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

MAX_PAGE = 256 * 1024
"""Bytes of a page that are read: its head, with room for what scripts put before the tags."""


@dataclass(frozen=True)
class LandingPage:
    """`pdf_url` is absolute, without a fragment; empty where the page names no PDF on http(s)."""

    pdf_url: str
    title: str


def read_page(page: bytes, url: str) -> LandingPage:
    """What the page at `url` (after redirects) says; a cut-off or broken page says what it can."""
    reader = _Reader()
    reader.feed(page[:MAX_PAGE].decode("utf-8", "replace"))
    return LandingPage(_absolute(reader.pdf_url, reader.base, url), " ".join(reader.title.split()))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pdf_url = self.base = self.title = ""
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: (value or "").strip() for name, value in attrs}
        if tag == "meta":
            name = said.get("name") or said.get("property") or ""
            if name.lower() == "citation_pdf_url":
                self.pdf_url = self.pdf_url or said.get("content", "")
        elif tag == "base":
            self.base = self.base or said.get("href", "")
        elif tag == "title":
            self._in_title = not self.title

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data


def _absolute(link: str, base: str, url: str) -> str:
    if not link:
        return ""
    try:
        found = urlsplit(urljoin(urljoin(url, base), link))
    except ValueError:  # brackets that hold no IPv6 address
        return ""
    return found._replace(fragment="").geturl() if found.scheme in ("http", "https") else ""
