"""The report as an HTML page: one file without scripts that loads nothing, with untrusted text escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from pipeline.steps.report.report import ReportFacts
from pipeline.web.collection_export import without_local_links
from pipeline.web.report_page import render_html
from tests.report_builder import FACTS, FULL, HOSTILE, with_every_text

KNOWN_HOSTS = ("https://doi.org/", "https://arxiv.org/abs/")


class Seen(HTMLParser):
    """A parsed page: its tags, their attributes, and its text by tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append((self.tags[-1][0] if self.tags else "", data))

    def count(self, tag: str) -> int:
        return [name for name, _ in self.tags].count(tag)


def test_a_page_reads_from_title_to_references() -> None:
    page = render_html(replace(FULL, problem="Page 4 was not read: it took too long."))
    page = page[page.index("<h1") :]
    in_order = (
        "On the Flow of Water", "Ada Brook, Émile Rivière · 2024", "10.5555/flow(1)",
        "CC BY 4.0", "gold", "Partial document.", "Page 4 was not read", "Water flows downhill.",
        "Uphill it needs a pump.", "A pump is described.", '<q dir="auto">a pump is</q>', "p. 2",
        "<li dir=\"auto\">water</li>",
        "4</td><td>it took too long", "crossref", "9,000 tokens in and 300 out", "ab" * 32,
        "2026-11-28 00:02 UTC", "[1] A. Brook. Seals.", "crossref: title, authors, year; others state: year",
        "Seals of gates", "Brook, Ada; Weir, E.", "printed: 2010", "[3] Nobody. Lost.",
    )  # fmt: skip
    positions = [page.index(text) for text in in_order]
    assert positions == sorted(positions)


def test_a_page_with_few_facts_has_no_empty_sections() -> None:
    page = render_html(FACTS)
    for absent in ("<table", "Sources queried", "<ol", 'role="note"', "Licence", "Fetched from"):
        assert absent not in page


def test_hostile_text_makes_no_tag_no_attribute_and_no_link() -> None:
    """The tags of a page do not depend on its texts."""
    tame = render_html(with_every_text("tame"))
    page = render_html(with_every_text('"><script>alert(1)</script><img src=x onerror=alert(1)> \u202e'))
    assert Seen(page).tags == Seen(tame).tags
    assert "\u202e" not in page


@pytest.mark.parametrize("facts", [FULL, with_every_text(HOSTILE)], ids=["full", "hostile"])
def test_a_page_needs_nothing_else_and_links_to_two_places_only(facts: ReportFacts) -> None:
    """No script, no load, no form, no frame; only doi.org and arxiv.org are linked to."""
    page = render_html(facts)
    seen = Seen(page)
    for tag in ("script", "img", "link", "iframe", "object", "form", "base", "svg"):
        assert seen.count(tag) == 0
    assert not re.search(r"@import|url\(", page)
    for tag, attributes in seen.tags:
        assert not any(name.startswith("on") for name in attributes), tag
        if tag == "a":
            assert str(attributes["href"]).startswith(KNOWN_HOSTS)
            assert attributes["rel"] == "noreferrer noopener"
    policies = [a["content"] for _, a in seen.tags if "http-equiv" in a]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"]


def test_equal_facts_give_equal_pages() -> None:
    assert render_html(FULL) == render_html(replace(FULL))


def test_a_report_links_to_the_paper_and_verified_claims_to_their_pages_but_not_from_a_folder() -> None:
    page = render_html(replace(FACTS, files=(("PDF", "pdf"), ("Page by page", "pages/1"))))
    assert '<a class="local" href="pdf">PDF</a>' in page
    assert '<span class="where"><a class="local" href="pages/2">p. 2</a></span>' in page
    alone = without_local_links(page.encode()).decode()
    assert "<a " not in alone and "<nav" not in alone and '<span class="where">p. 2</span>' in alone
    assert alone == render_html(FACTS)
