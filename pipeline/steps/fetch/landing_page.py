"""The address of the PDF as a publisher's page names it.

Pages that Google Scholar indexes carry `<meta name="citation_pdf_url" content="…">`.
"""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

MAX_PAGE = 256 * 1024
"""Bytes of a page that are read: its head, with room for what scripts put before the tags."""


def pdf_link(page: bytes, url: str) -> str:
    """The PDF that the page at `url` (after redirects) names: absolute, on http or https, without a
    fragment; empty where there is none. A cut-off or broken page says what it can."""
    reader = _Reader()
    reader.feed(page[:MAX_PAGE].decode("utf-8", "replace"))
    return _absolute(reader.pdf_url, reader.base, url)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pdf_url = self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: (value or "").strip() for name, value in attrs}
        if tag == "meta":
            name = said.get("name") or said.get("property") or ""
            if name.lower() == "citation_pdf_url":
                self.pdf_url = self.pdf_url or said.get("content", "")
        elif tag == "base":
            self.base = self.base or said.get("href", "")


def _absolute(link: str, base: str, url: str) -> str:
    if not link:
        return ""
    try:
        found = urlsplit(urljoin(urljoin(url, base), link))
    except ValueError:  # brackets that hold no IPv6 address
        return ""
    return found._replace(fragment="").geturl() if found.scheme in ("http", "https") else ""
