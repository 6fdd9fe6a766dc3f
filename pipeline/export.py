"""Document metadata for programs: the paper's part of an exported line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.models import Document
from pipeline.steps.http.shown import shown

COLUMNS = (
    "kind", "source", "title", "authors", "year", "venue", "abstract", "keywords",
    "metadata", "licence", "open_access", "doi", "arxiv_id",
    "sha256", "size", "pages", "pages_by", "characters", "references", "references_style",
    "references_by", "problem",
    "analysis", "method", "prompt_version", "prompt_hash", "extraction_schema_id", "requests",
    "prompt_tokens", "completion_tokens", "cached_tokens", "micro_usd", "priced_requests",
)  # fmt: skip
ADDRESSES = ("pdf_url", "fetched_from")
FILES = (
    "pdf", "text", "pages_file", "references_file", "report_markdown", "report_json", "report_html",
)  # fmt: skip


def export(keys: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """The documents of these keys, by key; `files` are names on the storage, of existing files."""
    about = Document.objects.keys_of(keys)
    rows = Document.objects.filter(key__in=set(about.values())).values("key", *COLUMNS, *ADDRESSES, *FILES)
    facts = {row["key"]: _facts(row) for row in rows}
    return {key: facts[of] for key, of in about.items() if of in facts}


def _facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """URLs without their queries, which may contain a signature."""
    return {
        **{name: row[name] for name in COLUMNS},
        "source": shown(row["source"]) if row["kind"] == "url" else row["source"],
        **{name: shown(row[name]) if row[name] else "" for name in ADDRESSES},
        "files": {name: row[name] for name in FILES if row[name]},
    }
