"""Merge the metadata of several sources: for each field, which source takes precedence. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pipeline.steps.resolve.sources.answer import Answer, Paper

PUBLISHED = ("arxiv", "crossref", "openalex", "unpaywall", "semanticscholar")
"""For what is printed on a paper: Crossref has it from the publisher, others from Crossref."""

COPIES = ("unpaywall", "openalex", "semanticscholar", "crossref", "arxiv")
"""For access rights: Unpaywall checks the copies, Crossref has what was once deposited."""

PREFERRED_SOURCES: Mapping[str, tuple[str, ...]] = {"licence": COPIES, "open_access": COPIES}
"""The order for these fields; that of the others is `PUBLISHED`."""


def merge_facts(answers: Mapping[str, Answer]) -> Paper:
    """Each field from the first source in the order of PREFERRED_SOURCES that has it."""
    return Paper(**{f.name: _first(f.name, answers) for f in fields(Paper)})


def _first(fact: str, answers: Mapping[str, Answer]) -> Any:
    stated = (
        getattr(answers[name].paper, fact)
        for name in PREFERRED_SOURCES.get(fact, PUBLISHED)
        if name in answers
    )
    return next((value for value in stated if value), getattr(Paper(), fact))
