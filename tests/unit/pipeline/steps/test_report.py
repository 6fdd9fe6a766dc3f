"""The report states what is known and what is missing, and escapes hostile text."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC

import pytest

from pipeline.steps.report.cost import Cost
from pipeline.steps.report.json_report import render_json
from pipeline.steps.report.markdown_report import render_markdown
from pipeline.steps.report.report import (
    PagesRead,
    SourceLookup,
    arxiv_link,
    doi_link,
    group_pages,
    plain,
    source_lookup,
)
from tests.report_builder import FACTS, FULL, HOSTILE, with_every_text


def test_a_report_reads_from_title_to_provenance() -> None:
    assert render_markdown(FACTS) == (
        "# On the Flow of Water\n\n"
        "## Summary\n\nWater flows downhill.\n\nUphill it needs a pump.\n\n"
        "## Contributions\n\n- A pump is described.  \n  “a pump is” *p. 2*\n\n"
        "## Keywords\n\nwater · flow\n\n"
        "## About this report\n\n| | |\n|---|---|\n"
        "| Key | <code>arxiv&#58;2101.00001</code> |\n"
        "| Source | <code>https&#58;//arxiv.org/pdf/2101.00001</code> |\n"
        "| Pages | 12 (10 text layer, 1 read by OCR, 1 blank) |\n"
        "| References | 34 (bracketed) |\n"
        "| Analysis | m-1, 1 request |\n"
        "| Evidence | 1 of 1 quotes found in the text |\n"
        f"| SHA-256 of the PDF | <code>{'ab' * 32}</code> |\n"
        "| Created | 2026-11-28 00:02 UTC |\n"
    )


def test_an_extractive_report_says_so_before_anything_else() -> None:
    text = render_markdown(replace(FACTS, method="extractive", requests=0))
    assert text.index("No language model was used") < text.index("## Summary")
    assert "extractive, without a language model" in text


def test_a_partial_document_says_why_before_anything_else() -> None:
    """Missing pages are visible."""
    text = render_markdown(replace(FACTS, problem="Page 3 was not read: it took too long."))
    assert text.index("> **Partial document.** Page 3 was not read") < text.index("## Summary")


def test_a_list_that_was_not_found_differs_from_an_empty_one() -> None:
    assert "no list of references was found" in render_markdown(replace(FACTS, references=None))
    assert "| References | 0 |" in render_markdown(replace(FACTS, references=0, references_style=""))


def test_the_title_of_the_catalogue_wins_over_the_models() -> None:
    assert render_markdown(replace(FACTS, title=" ")).startswith("# On the flow of water\n")


def test_hostile_text_is_shown_as_text() -> None:
    """Text of a paper or a model runs nowhere and links nowhere."""
    text = render_markdown(with_every_text(HOSTILE))
    for forbidden in ("<script", "![x](", "[a](", "http://evil", "www.evil", "\u202e"):
        assert forbidden not in text
    assert text.count("\n# ") == 0 and text.count("\n## ") == 9
    rows = [line.replace("\\|", "") for line in text.split("\n") if line.startswith("|")]
    assert [line.count("|") for line in rows] == [5] * 3 + [3] * 15 + [5] * 3 + [4] * 4


@pytest.mark.parametrize("text", ["- not a list", "+ nor this", "1. nor that", "12) nor this", "==="])
def test_a_summary_forms_no_list_or_heading(text: str) -> None:
    analysis = FACTS.analysis.model_copy(update={"summary": f"First.\n\n{text}"})
    shown = render_markdown(replace(FACTS, analysis=analysis))
    assert f"\n{text}" not in shown
    assert "\\" in shown


def test_a_report_can_be_rendered_by_a_markdown_reader() -> None:
    from markdown_it import MarkdownIt

    html = MarkdownIt("commonmark").enable("table").render(render_markdown(with_every_text(HOSTILE)))
    for forbidden in ("<script", "<img", "<a ", "<ul>\n<li>item", "<h1>heading"):
        assert forbidden not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert html.count("<h1>") == 1 and html.count("<table>") == 4


def test_a_report_shows_every_known_fact_of_a_paper() -> None:
    text = render_markdown(FULL)
    assert "\n\nAda Brook, Émile Rivière · 2024\n\n" in text
    assert "| DOI | [10.5555/flow(1)](<https://doi.org/10.5555/flow%281%29>) |" in text
    assert "| arXiv | [2101.00001v2](<https://arxiv.org/abs/2101.00001v2>) |" in text
    assert "| m-1, 1 request, 9,000 tokens in and 300 out, prompt 2026-11-1 |" in text
    assert "| Cost | $0.00153 |" in text
    assert "| text layer | 1-3, 5 |  |\n| not readable | 4 | it took too long |" in text
    assert "- crossref: found: yes\n- unpaywall: status: 404" in text
    assert "1. \\[1\\] A. Brook. Seals. [10.1000/182](<https://doi.org/10.1000/182>)\n" in text
    assert (
        "\n   - title: Seals of gates (crossref)\n   - authors: Brook, Ada; Weir, E. (crossref)\n"
        "   - year: 2009 (crossref); others state: printed: 2010\n2. "
    ) in text
    assert text.endswith("3. \\[3\\] Nobody. Lost.\n")


def test_the_json_report_contains_every_known_fact_of_a_paper() -> None:
    report = json.loads(render_json(FULL))
    assert report["schema"] == 7
    assert report["links"]["arxiv"] == "https://arxiv.org/abs/2101.00001v2"
    assert report["pages"]["read"][1] == {
        "source": "failed", "numbers": [4], "reason": "it took too long",
    }  # fmt: skip
    assert report["references"]["list"][1] == {
        "text": "[2] E. Weir. Gates.", "doi": "", "arxiv_id": "hep-th/9901001",
    }  # fmt: skip
    assert report["references"]["list"][0]["fields"]["year"] == {
        "value": 2009, "source": "crossref", "conflicts": [{"value": 2010, "source": "printed"}],
    }  # fmt: skip
    assert report["lookups"][0] == {"source": "crossref", "result": "found: yes"}
    assert report["tokens"] == {"prompt": 9000, "cached": 0, "completion": 300}
    assert report["cost"] == {"usd": "0.00153", "words": "$0.00153", "requests_of_unknown_cost": 0}


@pytest.mark.parametrize(
    ("cost", "usd", "words"),
    [
        (Cost(), "0.00", ""),
        (Cost(1_234_567_800, 3, 3, has_tokens=True), "1234.5678", "$1,234.5678"),
        (Cost(0, 1, 1, has_tokens=True), "0.00", "$0.00"),
        (Cost(0, 2, 0, has_tokens=True), None, "no price known"),
        (Cost(0, 2, 0), None, "not known: the endpoint reported no tokens"),
        (Cost(90, 3, 2, True), "0.00009", "$0.00009, without 1 of 3 requests, of which no cost is known"),
    ],
)
def test_a_cost_is_said_to_the_millionth_of_a_dollar_or_why_it_is_not_known(
    cost: Cost, usd: str | None, words: str
) -> None:
    assert (cost.usd, str(cost)) == (usd, words)


@pytest.mark.parametrize(
    "doi", ["javascript:alert(1)", "10.1/", "https://evil.test/10.1/x", "10.1000/a b", "//evil.test"]
)
def test_what_is_no_doi_is_not_linked(doi: str) -> None:
    assert doi_link(doi) == ""


def test_a_doi_cannot_break_out_of_its_address() -> None:
    """Old DOIs contain characters that are special in HTML and Markdown."""
    assert (
        doi_link('10.1002/(SICI)1<x>"2::AID?#é')
        == "https://doi.org/10.1002/%28SICI%291%3Cx%3E%222%3A%3AAID%3F%23%C3%A9"
    )


@pytest.mark.parametrize(
    ("arxiv_id", "leads"),
    [("2101.00001", True), ("hep-th/9901001v2", True), ("math.GT/0309136", True),
     ("../2101.00001", False), ("2101.00001?x=1", False), ("javascript:1/1234567", False)],
)  # fmt: skip
def test_only_arxiv_ids_lead_to_arxiv(arxiv_id: str, leads: bool) -> None:
    assert arxiv_link(arxiv_id) == (f"https://arxiv.org/abs/{arxiv_id}" if leads else "")


def test_pages_read_alike_are_grouped_and_failures_come_last() -> None:
    pages = [(1, "failed", "x"), (2, "pdfium", ""), (3, "pypdf", "no letters"), (4, "pdfium", "")]
    assert group_pages(pages) == (
        PagesRead("pdfium", (2, 4)),
        PagesRead("pypdf", (3,), "no letters"),
        PagesRead("failed", (1,), "x"),
    )


def test_a_look_up_is_shown_in_words_whatever_its_fields() -> None:
    record = {"source": "crossref", "found": True, "urls": ["a", "b"], "error": "", "status": 200}
    assert source_lookup(record) == SourceLookup("crossref", "found: yes, urls: a, b, status: 200")
    assert source_lookup({}) == SourceLookup("unnamed", "")


def test_nothing_is_left_that_hides_or_reverses_text() -> None:
    assert plain("a\x1b[31m\u202eb\u2066c\u200bd\ud800e\ufefff\u2028g") == "a[31mbcdefg"


def test_json_gives_the_same_facts_for_programs() -> None:
    report = json.loads(render_json(replace(FACTS, problem="Page 3 was not read.")))
    assert report["references"] == {"count": 34, "style": "bracketed", "by": {}, "list": []}
    assert report["pages"]["by"]["ocr"] == 1
    assert (report["partial"], report["extractive"], report["requests"]) == (True, False, 1)
    assert report["created"] == "2026-11-28T00:02:00+00:00"
    assert report["analysis"]["keywords"] == ["water", "flow"]


def test_equal_facts_give_equal_bytes() -> None:
    same = replace(FACTS, created=FACTS.created.astimezone(UTC))
    assert render_json(same) == render_json(FACTS)
    assert render_markdown(same) == render_markdown(FACTS)
