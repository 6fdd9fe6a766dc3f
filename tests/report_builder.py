"""Facts of reports for tests: some, all there can be, and all of them one hostile text."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from pipeline.steps.analyse.analysis import Analysis, Claim
from pipeline.steps.report.cost import Cost
from pipeline.steps.report.report import PagesRead, ReportFacts, SourceLookup
from pipeline.steps.report.stated_fields import Reference, StatedField

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
        contributions=(Claim(text="A pump is described.", page=2, quote="a pump is", verdict="verified"),),
    ),
    method="model:m-1",
    requests=1,
    sha256="ab" * 32,
    created=datetime(2026, 11, 28, 1, 2, tzinfo=timezone(timedelta(hours=1))),
    pages_by={"pdfium": 10, "ocr": 1, "blank": 1, "failed": 0},
)

HOSTILE = (
    "<script>alert(1)</script> ![x](http://evil.test/p.png) [a](javascript:1) `code` | cell\n"
    "# heading\n- item\n1. item\n> quote www.evil.test \u202egnp.exe"
)


FULL = replace(
    FACTS,
    authors=("Ada Brook", "Émile Rivière"),
    year=2024,
    licence="CC BY 4.0",
    open_access="gold",
    doi="10.5555/flow(1)",
    arxiv_id="2101.00001v2",
    fetched_from="https://export.arxiv.org/pdf/2101.00001",
    read=(PagesRead("pdfium", (1, 2, 3, 5)), PagesRead("failed", (4,), "it took too long")),
    reference_list=(
        Reference(
            "[1] A. Brook. Seals.",
            "10.1000/182",
            fields=(
                StatedField("title", "Seals of gates", "crossref"),
                StatedField("authors", ["Brook, Ada", "Weir, E."], "crossref"),
                StatedField("year", 2009, "crossref", conflicts=(StatedField("year", 2010, "printed"),)),
            ),
        ),
        Reference("[2] E. Weir. Gates.", arxiv_id="hep-th/9901001"),
        Reference("[3] Nobody. Lost."),
    ),
    lookups=(SourceLookup("crossref", "found: yes"), SourceLookup("unpaywall", "status: 404")),
    prompt_version="2026-11-1",
    prompt_hash="cd" * 32,
    prompt_tokens=9_000,
    completion_tokens=300,
    cost=Cost(1_530, 1, 1, has_tokens=True),
)
"""A report with all there is to tell."""


def _stated(text: str) -> StatedField:
    return StatedField(text, [text, text], text, 0.5, (StatedField(text, text, text),))


def with_every_text(text: str) -> ReportFacts:
    """A report of which every text is this one."""
    claims = (Claim(text=text, quote=text, page=3, verdict="verified"), Claim(text=text))
    analysis = Analysis(title=text, summary=text, keywords=(text,), results=claims, anomalies=(text,))
    analysis = analysis.model_copy(update={"extracted": {text: [text]}, "field_evidence": {text: claims[0]}})
    return replace(
        FACTS, analysis=analysis, title=text, key=text, source=text, problem=text, doi=text,
        authors=(text,), licence=text, open_access=text, arxiv_id=text, fetched_from=text,
        method=f"model:{text}", references_style=text, prompt_version=text,
        read=(PagesRead("failed", (1,), text), PagesRead(text, (2,))),
        reference_list=(Reference(text, text, text, (_stated(text),)),),
        metadata=(_stated(text),), lookups=(SourceLookup(text, text),),
    )  # fmt: skip
