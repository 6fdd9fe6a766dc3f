"""Which services are asked about the identifiers a paper prints, and whether they mean the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.config import pipeline_settings
from pipeline.models import Document
from pipeline.paper_metadata import given
from pipeline.steps.identify import Identifier, identify
from pipeline.steps.metadata.candidates import CATALOGUES, read_stored
from pipeline.steps.metadata.letters_only import squeezed
from pipeline.steps.metadata.merge import FieldValue, merged
from pipeline.steps.metadata.title_match import share_printed
from queuemgr import BadInput

RESOLVED = ("doi", "arxiv")
"""Kinds of documents that were looked up before they were fetched."""

SURE = 0.7
"""The least confidence in an identifier that is looked up."""

ALIKE = 0.6
"""The least share of a service's title that is on the first page of its paper."""


def identifiers(fields: Mapping[str, FieldValue]) -> dict[str, Identifier]:
    """The paper's DOI and arXiv id, by `doi` and `arxiv`, as far as they are sure."""
    found = {}
    for kind, field, prefix in (("doi", "doi", "doi:"), ("arxiv", "arxiv_id", "arXiv:")):
        if field in fields and fields[field].chosen.confidence >= SURE:
            try:
                found[kind] = identify(f"{prefix}{fields[field].chosen.value}")
            except BadInput:  # such as a DOI that was cut off
                continue
    return found


def identifier_for(source: str, fields: Mapping[str, FieldValue]) -> Identifier | None:
    """What this service is asked about."""
    return identifiers(fields).get("arxiv" if source == "arxiv" else "doi")


def services_to_ask(document: Document, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The context for the step that asks them, in order: those of the setting, unless one has answered."""
    stated, config = list(read_stored(columns["metadata"])), pipeline_settings()
    if document.kind in RESOLVED or any(each.source in CATALOGUES for each in stated):
        return {}
    fields = merged((*stated, *given(document)))
    names = config.services_for_metadata
    left = [
        name for name in names if identifier_for(name, fields) and (name != "arxiv" or config.arxiv_metadata)
    ]
    return {"services_left": left, "resolver": left[0]} if left else {}


def is_about(title: str, front: list[str]) -> bool:
    """Whether a service's title is that of the paper: on its first page, or among its known titles."""
    return share_printed(title, front) >= ALIKE or squeezed(title) in squeezed(" ".join(front[:60]))
