"""The report on one paper as JSON, for programs. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC
from typing import Any

from pipeline.steps.analyse.analyse import EXTRACTIVE
from pipeline.steps.report.report import ReportFacts, arxiv_link, doi_link, title_of

SCHEMA = 7
"""Version of the JSON report; incremented when a field is added, removed or changes its meaning."""


def render_json(facts: ReportFacts) -> str:
    """One JSON object with sorted keys, so that equal facts give equal bytes."""
    report = {
        "schema": SCHEMA,
        "created": facts.created.astimezone(UTC).isoformat(),
        **_paper(facts),
        **_text(facts),
        **_analysis(facts),
    }
    return json.dumps(report, ensure_ascii=False, indent=2, sort_keys=True)


def _paper(facts: ReportFacts) -> dict[str, Any]:
    """Which paper it is, and where it is from."""
    return {
        "key": facts.key,
        "source": facts.source,
        "title": title_of(facts),
        "authors": list(facts.authors),
        "year": facts.year,
        "licence": facts.licence,
        "open_access": facts.open_access,
        "doi": facts.doi,
        "arxiv_id": facts.arxiv_id,
        "links": {"doi": doi_link(facts.doi), "arxiv": arxiv_link(facts.arxiv_id)},
        "metadata": {field.name: field.to_json() for field in facts.metadata},
        "lookups": [asdict(lookup) for lookup in facts.lookups],
        "fetched_from": facts.fetched_from,
        "size": facts.size,
        "sha256": facts.sha256,
    }


def _text(facts: ReportFacts) -> dict[str, Any]:
    """What was read of it, and how."""
    return {
        "pages": {
            "total": facts.pages,
            "by": dict(facts.pages_by),
            "read": [asdict(pages) for pages in facts.read],
        },
        "references": {
            "count": facts.references,
            "style": facts.references_style,
            "by": dict(facts.references_by),
            "list": [reference.to_json() for reference in facts.reference_list],
        },
        "characters": facts.characters,
        "partial": bool(facts.problem),
        "problem": facts.problem,
    }


def _analysis(facts: ReportFacts) -> dict[str, Any]:
    """What it says, by which method, and what that took."""
    return {
        "analysis": facts.analysis.model_dump(mode="json"),
        "method": facts.method,
        "extractive": facts.method == EXTRACTIVE,
        "prompt_version": facts.prompt_version,
        "prompt_hash": facts.prompt_hash,
        "extraction_schema": json.loads(facts.extraction_schema) if facts.extraction_schema else None,
        "requests": facts.requests,
        "tokens": {
            "prompt": facts.prompt_tokens,
            "cached": facts.cached_tokens,
            "completion": facts.completion_tokens,
        },
        "cost": {
            "usd": facts.cost.usd,
            "words": str(facts.cost),
            "requests_of_unknown_cost": facts.cost.requests - facts.cost.priced_requests,
        },
    }
