"""What the PDF's own metadata says of the paper. Pure.

Programs write their own names, file names and templates there, so a title counts for as much as of it is
printed on the first page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pipeline.steps.extract.reference_ids import DOI_START, doi_of
from pipeline.steps.metadata.embedded_names import MAX_VALUE
from pipeline.steps.metadata.printed import Stated
from pipeline.steps.metadata.title_match import NO_TITLES, share_printed

NO_AUTHORS = re.compile(
    r"(?:admin\w{0,20}|user|owner|unknown|anonymous|author|administrator|[\w.+-]{1,64}@\S{1,200}|\w{1,3}|\S{1,30}\d)",
    re.IGNORECASE,
)  # fmt: skip
"""Names of accounts, not of people."""

JOURNAL = re.compile(
    r"\b(?:journal|proceedings|transactions|letters|annals|bulletin|conference)\b", re.IGNORECASE
)
JOURNAL_END = re.compile(
    r"(?:,|\s)\s{0,3}(?:(?:19|20)\d\d\s{1,3}\d|\d{1,4}\s{0,2}[:(]|vol|doi)", re.IGNORECASE
)
NAMES_APART = re.compile(r"\s{0,3}(?:;|,\s{0,3}and\s|\sand\s|,|&)\s{0,3}")


def embedded(info: Mapping[str, str], front: Sequence[str]) -> list[Stated]:
    """The candidates in these entries, `title`, `author` and so on, with what the first page prints."""
    return [
        *title_in(info.get("title", ""), front),
        *authors_in(info.get("author", ""), front),
        *doi_in(info),
        *venue_in(info),
        *keywords_in(info.get("keywords", "")),
    ]


def credible_title(info: Mapping[str, str]) -> str:
    """The embedded title, "" where a program wrote it."""
    title = " ".join(info.get("title", "")[:MAX_VALUE].split()).strip("\0 ")
    return "" if NO_TITLES.fullmatch(title) else title


def title_in(given: str, front: Sequence[str]) -> Iterator[Stated]:
    title = credible_title({"title": given})
    if not title:
        return
    if not front:
        yield Stated("title", title, 0.65)
        return
    share = share_printed(title, front)
    yield Stated("title", title, 0.9 if share == 1.0 else 0.75 if share >= 0.6 else 0.3)


def authors_in(given: str, front: Sequence[str]) -> Iterator[Stated]:
    names = [name for name in NAMES_APART.split(given[:MAX_VALUE]) if name.strip()]
    if names and not any(NO_AUTHORS.fullmatch(name.strip()) for name in names):
        yield Stated("authors", names, 0.8 if share_printed(names[0], front) == 1.0 else 0.5)


def doi_in(info: Mapping[str, str]) -> Iterator[Stated]:
    for name, confidence in (("doi", 0.92), ("subject", 0.7), ("keywords", 0.5)):
        words = info.get(name, "")[:MAX_VALUE].split()
        if any(map(DOI_START.search, words)) and (doi := doi_of([word for word in words if word])):
            yield Stated("doi", doi, confidence)
            return


def venue_in(info: Mapping[str, str]) -> Iterator[Stated]:
    if venue := info.get("venue", ""):
        yield Stated("venue", venue[:MAX_VALUE], 0.8)
        return
    subject = info.get("subject", "")[:MAX_VALUE]
    if JOURNAL.search(subject):
        yield Stated("venue", JOURNAL_END.split(subject)[0].strip(" ,"), 0.6)


def keywords_in(given: str) -> Iterator[Stated]:
    separator = ";" if ";" in given[:MAX_VALUE] else ","
    words = [word.strip() for word in given[:MAX_VALUE].split(separator) if word.strip()]
    if words and not any(map(DOI_START.search, words)):
        yield Stated("keywords", words, 0.6)
