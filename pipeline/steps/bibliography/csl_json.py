"""Entries as CSL-JSON, the form of citation processors and of Zotero. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pipeline.steps.bibliography.entry import Entry, Kind, Name

TYPES: Mapping[Kind, str] = {
    "article": "article-journal", "conference": "paper-conference", "preprint": "article",
    "other": "document",
}  # fmt: skip


def csl_json(entry: Entry) -> str:
    """One item as a JSON object; a file is an array of them."""
    return json.dumps({name: value for name, value in item(entry).items() if value}, ensure_ascii=False)


def item(entry: Entry) -> dict[str, Any]:
    """The item's variables, empty ones too."""
    return {
        "id": entry.key,
        "type": TYPES[entry.kind],
        "title": entry.title,
        "author": [name_of(name) for name in entry.authors],
        "issued": {"date-parts": [[entry.year]]} if entry.year else {},
        "container-title": entry.venue,
        "volume": entry.volume,
        "issue": entry.issue,
        "page": entry.page.replace("\u2013", "-"),
        "publisher": entry.publisher or ("arXiv" if entry.kind == "preprint" else ""),
        "DOI": entry.doi,
        "number": f"arXiv:{entry.arxiv_id}" if entry.arxiv_id else "",
        "URL": entry.url,
        "abstract": entry.abstract,
        "keyword": ", ".join(entry.keywords),
        "source": entry.catalogue,
        "note": entry.note,
    }


def name_of(name: Name) -> dict[str, str]:
    return {"family": name.family, "given": name.given} if name.given else {"literal": name.family}
