"""Which of several stated values a field gets, and which differ from it. Pure.

The value with the highest confidence is chosen; between equals the first source of `ORDER`. Nothing is
dropped: what other sources state is kept beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.steps.metadata.candidates import FIELDS, Candidate
from pipeline.steps.metadata.letters_only import squeezed

ORDER = (
    "given", "arxiv", "crossref", "openalex", "unpaywall", "semanticscholar", "landing page", "embedded",
    "printed", "model",
)  # fmt: skip
"""The sources, from what a person gave to what a model read."""


@dataclass(frozen=True)
class FieldValue:
    """The value of a field, its source, and what other sources state."""

    chosen: Candidate
    others: tuple[Candidate, ...] = ()

    @property
    def conflicts(self) -> tuple[Candidate, ...]:
        """Those of the others that state something else."""
        return tuple(other for other in self.others if not is_same(self.chosen, other))


def merged(candidates: Iterable[Candidate]) -> dict[str, FieldValue]:
    """The fields that any source states, in the order of `FIELDS`."""
    by_field: dict[str, list[Candidate]] = {}
    for each in sorted(candidates, key=_rank):
        by_field.setdefault(each.field, []).append(each)
    return {
        field: FieldValue(by_field[field][0], tuple(by_field[field][1:]))
        for field in FIELDS
        if field in by_field
    }


def _rank(candidate: Candidate) -> tuple[float, int]:
    known = candidate.source in ORDER
    return -candidate.confidence, ORDER.index(candidate.source) if known else len(ORDER)


def is_same(one: Candidate, other: Candidate) -> bool:
    """Whether two candidates for a field mean the same: spelling, signs and initials do not count."""
    compare: Callable[[Any], Any] = COMPARED.get(one.field, _squeezed)
    return bool(compare(one.value) == compare(other.value))


def _squeezed(value: Any) -> str:
    return squeezed(str(value))


def _family_names(value: Any) -> list[str]:
    return [squeezed(family_name(name)) for name in value]


def _word_set(value: Any) -> set[str]:
    return set(map(squeezed, value))


def _unversioned(value: Any) -> str:
    return re.sub(r"v\d{1,4}$", "", str(value))


COMPARED: Mapping[str, Callable[[Any], Any]] = {
    "authors": _family_names,
    "keywords": _word_set,
    "arxiv_id": _unversioned,
}
"""How the values of these fields are compared; those of others by their letters and digits."""

PARTICLES = frozenset({
    "da", "das", "de", "del", "della", "den", "der", "des", "di", "do", "dos", "du", "el", "la", "le", "ten",
    "ter", "van", "vom", "von", "zu", "zum", "zur",
})  # fmt: skip
"""Words in lower case that belong to the family name after them."""

SUFFIXES = frozenset({"jr", "sr", "ii", "iii", "iv"})


def family_name(name: str) -> str:
    """`van den Berg` of `Jan van den Berg` and of `van den Berg, Jan`."""
    return split_name(name)[0]


def split_name(name: str) -> tuple[str, str]:
    """Family name and given names, as BibTeX splits them: particles in lower case and a suffix belong to
    the family name. A single word is a family name."""
    if "," in name:
        family, _, given = name.partition(",")
        return family.strip(), given.strip()
    words = name.split()
    end = len(words)
    while end > 2 and words[end - 1].strip(".").lower() in SUFFIXES:
        end -= 1
    start = end - 1
    while start > 1 and words[start - 1] in PARTICLES:
        start -= 1
    return " ".join(words[start:end]), " ".join((*words[:start], *words[end:]))


def columns(fields: Mapping[str, FieldValue]) -> dict[str, Any]:
    """The values of the document's columns that are known."""
    return {name: fields[name].chosen.value for name in COLUMNS if name in fields}


COLUMNS = ("title", "authors", "year", "venue", "abstract", "keywords", "doi", "arxiv_id")
"""The fields that have a column of their own."""
