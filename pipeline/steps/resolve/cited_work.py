"""What a service says of a work that a paper cites, beside what the paper prints of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pipeline.steps.metadata.letters_only import squeezed
from pipeline.steps.metadata.merge import split_name
from pipeline.steps.resolve.sources.answer import Paper

FIELDS = ("title", "authors", "year", "venue")

MOST = 2_000
"""Characters that are compared of an entry and of a title."""

MOST_AUTHORS = 200

ALIKE = 0.6
"""The least share of a title's words that its entry prints."""

CONFIDENCE = 0.95

WORD = re.compile(r"\w{2,}")


def with_answer(record: Mapping[str, Any], source: str, paper: Paper) -> dict[str, Any]:
    """The stored line of an entry with what a service answered about its DOI.

    The service's values are chosen where the entry prints that work, and else the printed ones; what differs
    from the chosen value is kept in `conflicts`, with its source, and `sources` names that of each field.
    """
    stated = _stated(paper)
    is_it = is_printed(str(record.get("text") or ""), paper)
    chosen: dict[str, Any] = {}
    conflicts = []
    for name in FIELDS:
        printed, found = record.get(name), stated.get(name)
        if found and (is_it or not printed):
            chosen[name] = found if is_it else printed
        if found and not is_it:
            conflicts.append({"field": name, "value": found, "source": source})
        elif found and printed and not _same(name, printed, found):
            conflicts.append({"field": name, "value": printed, "source": "printed"})
    sources = {name: source if is_it else "printed" for name in FIELDS if chosen.get(name)}
    sources |= {name: "printed" for name in FIELDS if record.get(name) and name not in sources}
    sure = {"confidence": CONFIDENCE} if is_it and chosen.get("title") else {}
    return {**record, **chosen, **sure, "sources": sources, "conflicts": conflicts}


def is_printed(text: str, paper: Paper) -> bool:
    """Whether an entry is about this work: it prints the title, or else its first author and year."""
    entry, title = squeezed(text[:MOST]), paper.title[:MOST]
    if squeezed(title) and squeezed(title) in entry:
        return True
    words = set(map(squeezed, WORD.findall(title)))
    printed = set(map(squeezed, WORD.findall(text[:MOST])))
    if len(words) >= 3 and len(words & printed) >= ALIKE * len(words):
        return True
    family = squeezed(split_name(paper.authors[0])[0][:MOST]) if paper.authors else ""
    return len(family) > 1 and family in entry and str(paper.year or "none") in text[:MOST]


def _stated(paper: Paper) -> dict[str, Any]:
    authors = [", ".join(filter(None, split_name(name[:MOST]))) for name in paper.authors[:MOST_AUTHORS]]
    return {"title": paper.title, "authors": authors, "year": paper.year, "venue": paper.venue}


def _same(name: str, printed: Any, found: Any) -> bool:
    if name == "authors":
        families = [[squeezed(str(each).partition(",")[0]) for each in some] for some in (printed, found)]
        return families[0] == families[1]
    return squeezed(str(printed)[:MOST]) == squeezed(str(found)[:MOST])
