"""The report on one paper as JSON, for programs. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC

from pipeline.steps.analyse.analyse import EXTRACTIVE
from pipeline.steps.report.report import ReportFacts, arxiv_link, doi_link, title_of

SCHEMA = 3
"""Version of the JSON report; incremented when a field is added, removed or changes its meaning."""


def render_json(facts: ReportFacts) -> str:
    """One JSON object with sorted keys, so that equal facts give equal bytes."""
    return json.dumps(
        {
            "schema": SCHEMA,
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
            "pages": {
                "total": facts.pages,
                "by": dict(facts.pages_by),
                "read": [asdict(pages) for pages in facts.read],
            },
            "references": {
                "count": facts.references,
                "style": facts.references_style,
                "list": [asdict(reference) for reference in facts.reference_list],
            },
            "lookups": [asdict(lookup) for lookup in facts.lookups],
            "analysis": facts.analysis.model_dump(mode="json"),
            "method": facts.method,
            "extractive": facts.method == EXTRACTIVE,
            "prompt_version": facts.prompt_version,
            "requests": facts.requests,
            "tokens": {"prompt": facts.prompt_tokens, "completion": facts.completion_tokens},
            "partial": bool(facts.problem),
            "problem": facts.problem,
            "fetched_from": facts.fetched_from,
            "size": facts.size,
            "characters": facts.characters,
            "sha256": facts.sha256,
            "created": facts.created.astimezone(UTC).isoformat(),
        },
        ensure_ascii=False,
        indent=2,
        sort_keys=True,
    )
