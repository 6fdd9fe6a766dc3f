"""The report says what is known, admits what is not, and shows hostile text as text."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pipeline.steps.analyse import Analysis
from pipeline.steps.report import ReportFacts, render_json, render_markdown

FACTS = ReportFacts(
    key="arxiv:2101.00001",
    source="https://arxiv.org/pdf/2101.00001",
    title="On the Flow of Water",
    pages=12,
    references=34,
    references_style="bracketed",
    analysis=Analysis(
        title="On the flow of water",
        summary="Water flows downhill.\n\nUphill it needs a pump.",
        keywords=("water", "flow"),
        contributions=("A pump is described.",),
    ),
    method="model:m-1",
    requests=1,
    sha256="ab" * 32,
    created=datetime(2026, 11, 28, 1, 2, tzinfo=timezone(timedelta(hours=1))),
    pages_by={"pypdf": 10, "ocr": 1, "blank": 1, "failed": 0},
)

HOSTILE = (
    "<script>alert(1)</script> ![x](http://evil.test/p.png) [a](javascript:1) `code` | cell\n"
    "# heading\n- item\n1. item\n> quote www.evil.test \u202egnp.exe"
)


def hostile(**changes: object) -> ReportFacts:
    analysis = Analysis(
        title=HOSTILE, summary=HOSTILE, keywords=(HOSTILE,), contributions=(HOSTILE,)
    )
    facts = replace(FACTS, title=HOSTILE, analysis=analysis, problem=HOSTILE)
    return replace(facts, key=HOSTILE, source=HOSTILE, references_style=HOSTILE, **changes)  # type: ignore[arg-type]


def test_a_report_reads_from_title_to_provenance() -> None:
    assert render_markdown(FACTS) == (
        "# On the Flow of Water\n\n"
        "## Summary\n\nWater flows downhill.\n\nUphill it needs a pump.\n\n"
        "## What it adds\n\n- A pump is described.\n\n"
        "## Keywords\n\nwater · flow\n\n"
        "## About this report\n\n| | |\n|---|---|\n"
        "| Key | <code>arxiv&#58;2101.00001</code> |\n"
        "| Source | <code>https&#58;//arxiv.org/pdf/2101.00001</code> |\n"
        "| Pages | 12 (10 text layer, 1 read by OCR, 1 blank) |\n"
        "| References | 34 (bracketed) |\n"
        "| Analysis | m-1, 1 request |\n"
        f"| SHA-256 of the PDF | <code>{'ab' * 32}</code> |\n"
        "| Created | 2026-11-28 00:02 UTC |\n"
    )


def test_an_extractive_report_says_so_before_anything_else() -> None:
    text = render_markdown(replace(FACTS, method="extractive", requests=0))
    assert text.index("No language model was used") < text.index("## Summary")
    assert "extractive, without a language model" in text


def test_a_partial_document_says_why_before_anything_else() -> None:
    """P7-13: missing pages are visible."""
    text = render_markdown(replace(FACTS, problem="Page 3 was not read: it took too long."))
    assert text.index("> **Partial document.** Page 3 was not read") < text.index("## Summary")


def test_a_list_nobody_found_is_not_a_list_of_none() -> None:
    assert "no list of references was found" in render_markdown(replace(FACTS, references=None))
    assert "| References | 0 |" in render_markdown(
        replace(FACTS, references=0, references_style="")
    )


def test_the_title_of_the_catalogue_wins_over_the_models() -> None:
    assert render_markdown(replace(FACTS, title=" ")).startswith("# On the flow of water\n")


def test_hostile_text_is_shown_as_text() -> None:
    """P4-14: what a paper or a model wrote runs nowhere and points nowhere."""
    text = render_markdown(hostile())
    for forbidden in ("<script", "![x](", "[a](", "http://evil", "www.evil", "\u202e"):
        assert forbidden not in text
    assert text.count("\n# ") == 0 and text.count("\n## ") == 4
    rows = [line for line in text.split("\n") if line.startswith("|")]
    assert len(rows) == 9 and all(line.replace("\\|", "").count("|") == 3 for line in rows)


@pytest.mark.parametrize(
    "text", ["- not a list", "+ nor this", "1. nor that", "12) nor this", "==="]
)
def test_a_summary_forms_no_list_or_heading(text: str) -> None:
    analysis = FACTS.analysis.model_copy(update={"summary": f"First.\n\n{text}"})
    shown = render_markdown(replace(FACTS, analysis=analysis))
    assert f"\n{text}" not in shown
    assert "\\" in shown


def test_a_report_can_be_rendered_by_a_markdown_reader() -> None:
    from markdown_it import MarkdownIt

    html = MarkdownIt("commonmark").enable("table").render(render_markdown(hostile()))
    for forbidden in ("<script", "<img", "<a ", "<ul>\n<li>item", "<h1>heading"):
        assert forbidden not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert html.count("<h1>") == 1 and html.count("<table>") == 1


def test_json_gives_the_same_facts_for_programs() -> None:
    said = json.loads(render_json(replace(FACTS, problem="Page 3 was not read.")))
    assert said["references"] == {"count": 34, "style": "bracketed"}
    assert said["pages"]["by"]["ocr"] == 1
    assert (said["partial"], said["extractive"], said["requests"]) == (True, False, 1)
    assert said["created"] == "2026-11-28T00:02:00+00:00"
    assert said["analysis"]["keywords"] == ["water", "flow"]


def test_equal_facts_give_equal_bytes() -> None:
    same = replace(FACTS, created=FACTS.created.astimezone(UTC))
    assert render_json(same) == render_json(FACTS)
    assert render_markdown(same) == render_markdown(FACTS)
