"""What sources state of a paper, and of what it cites: each value with who states it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.steps.extract.extract import clean
from pipeline.steps.report.plain_text import one_line

CITED = ("title", "authors", "year", "venue")
"""Fields of a reference that may have been looked up."""


def in_words(value: object) -> str:
    """A JSON value in words; names that have commas themselves are told apart."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        words = list(map(in_words, value))
        return ("; " if any("," in word for word in words) else ", ").join(words)
    return str(value)


@dataclass(frozen=True)
class StatedField:
    """A field: its value, who states it, and what others state instead. `confidence`: None where none is
    known of the field alone."""

    name: str
    value: object
    source: str
    confidence: float | None = None
    conflicts: tuple[StatedField, ...] = ()

    @property
    def text(self) -> str:
        """The value on one line."""
        return one_line(in_words(self.value))

    @property
    def conflicts_in_words(self) -> str:
        """What others state, and who."""
        return "; ".join(f"{other.source}: {other.text}" for other in self.conflicts)

    def to_json(self) -> dict[str, Any]:
        stated = {"value": self.value, "source": self.source}
        if self.confidence is not None:
            stated["confidence"] = self.confidence
        if self.conflicts:
            stated["conflicts"] = [other.to_json() for other in self.conflicts]
        return stated


@dataclass(frozen=True)
class Reference:
    """One entry of the paper's list of references, as printed, with its ids if it has any. `fields`: what is
    stated of the work, if a service was asked about it."""

    text: str
    doi: str = ""
    arxiv_id: str = ""
    fields: tuple[StatedField, ...] = ()

    @property
    def characters(self) -> int:
        """How long it is in a report."""
        stated = (len(each.text) + len(each.conflicts_in_words) for each in self.fields)
        return len(self.text) + sum(stated)

    @property
    def looked_up(self) -> str:
        """As `crossref: title, authors; printed: venue; others state: year`; "" if nobody was asked."""
        by: dict[str, list[str]] = {}
        for each in self.fields:
            if each.text:
                by.setdefault(each.source, []).append(each.name)
        differs = [each.name for each in self.fields if each.conflicts]
        groups = [*by.items(), *([("others state", differs)] if differs else [])]
        return "; ".join(f"{who}: {', '.join(names)}" for who, names in groups)

    def to_json(self) -> dict[str, Any]:
        own = {"text": self.text, "doi": self.doi, "arxiv_id": self.arxiv_id}
        return own | ({"fields": {each.name: each.to_json() for each in self.fields}} if self.fields else {})


def reference_of(record: Mapping[str, Any]) -> Reference:
    """A stored line of the list."""
    text, doi, arxiv_id = (clean(str(record.get(name) or "")).text for name in ("text", "doi", "arxiv_id"))
    return Reference(text, doi, arxiv_id, tuple(_looked_up(record)))


def _looked_up(record: Mapping[str, Any]) -> Iterator[StatedField]:
    """Its fields with their sources; none where no service was asked about it."""
    sources = record.get("sources")
    if not isinstance(sources, Mapping):
        return
    others = [each for each in record.get("conflicts") or () if isinstance(each, Mapping)]
    for name in CITED:
        conflicts = tuple(
            StatedField(name, _cleaned(each.get("value")), str(each.get("source") or ""))
            for each in others
            if each.get("field") == name
        )
        source = str(sources.get(name) or "")
        if source or conflicts:
            yield StatedField(name, _cleaned(record.get(name)), source, conflicts=conflicts)


def _cleaned(value: Any) -> Any:
    if isinstance(value, list):
        return [clean(str(each)).text for each in value]
    return value if isinstance(value, int) else clean(str(value or "")).text
