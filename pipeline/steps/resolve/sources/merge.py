"""One set of facts out of what several sources state: for each fact, whom to believe first. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pipeline.steps.resolve.sources.answer import Answer, Paper

PUBLISHED = ("arxiv", "crossref", "openalex", "unpaywall", "semanticscholar")
"""For what is printed on a paper: Crossref has it from the publisher, the others from Crossref."""

COPIES = ("unpaywall", "openalex", "semanticscholar", "crossref", "arxiv")
"""For how copies may be read: Unpaywall looks at the copies, Crossref has what was deposited once."""

BELIEVED: Mapping[str, tuple[str, ...]] = {
    "title": PUBLISHED,
    "authors": PUBLISHED,
    "year": PUBLISHED,
    "licence": COPIES,
    "open_access": COPIES,
    "doi": PUBLISHED,
    "arxiv_id": PUBLISHED,
}


def merged(answers: Mapping[str, Answer]) -> Paper:
    """Each fact from the first source, in the order of BELIEVED, that states it."""
    return Paper(**{f.name: _first(f.name, answers) for f in fields(Paper)})


def _first(fact: str, answers: Mapping[str, Answer]) -> Any:
    stated = (getattr(answers[name].paper, fact) for name in BELIEVED[fact] if name in answers)
    return next((value for value in stated if value), getattr(Paper(), fact))
