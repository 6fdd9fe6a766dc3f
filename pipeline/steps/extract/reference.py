"""One entry of a list of references: as printed, and in fields. Pure.

It is stored as a line of JSON with these names; exports read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Reference:
    """One entry: its text on one line, its DOI and arXiv id, or "", and what else its text says.

    `number`: as printed, else the entry's position in the list, from 1. `page`: where it begins.
    `authors`: `Family, Given` each; without a comma what is no person's name. `confidence`: from 0 to 1,
    how sure it is that the text was divided into its fields as its author meant it.
    """

    text: str
    doi: str
    arxiv_id: str
    number: int
    page: int | None = None
    authors: tuple[str, ...] = ()
    title: str = ""
    venue: str = ""
    year: int | None = None
    confidence: float = 0.0

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Reference:
        """From its stored line, whatever version wrote it."""
        known = {field.name for field in fields(cls)}
        given = {name: value for name, value in record.items() if name in known}
        return cls(**{**given, "authors": tuple(given.get("authors", ()))})
