"""What a report says of one paper, before it takes a form: facts, their words and their links. Pure.

`markdown_report.py` and `json_report.py` give it two of its forms; the page is a template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

from pipeline.steps.analyse.analyse import EXTRACTIVE, Analysis
from pipeline.steps.http.safe_addresses import shown

PAGE_SOURCES = {
    "pypdf": "text layer",
    "pdfium": "text layer, by a second engine",
    "ocr": "read by OCR",
    "blank": "blank",
    "failed": "not readable",
}
"""How a page was read, in words; the order they are listed in."""

NO_MODEL = (
    "No language model was used.",
    "The text below consists of sentences picked from the paper itself; nothing was understood "
    "or checked.",
)
PARTIAL = "Partial document."


@dataclass(frozen=True)
class Reference:
    """One entry of the paper's list of references, as it stands there; ids where it names them."""

    text: str
    doi: str = ""
    arxiv_id: str = ""


@dataclass(frozen=True)
class Asked:
    """Who was asked where the paper is, and what came of it."""

    who: str
    what: str


@dataclass(frozen=True)
class PagesRead:
    """Pages (from 1, in order) that were read alike; `reason` says why so, where it was noted."""

    source: str
    numbers: tuple[int, ...]
    reason: str = ""


@dataclass(frozen=True)
class ReportFacts:
    """All a report says. `pages_by` counts pages by the names of `PAGE_SOURCES`.

    `references` is None when no list was found. `requests` counts paid requests, tokens are those
    the endpoint counted. `problem` is "" or says in words what is missing. `created` must be aware;
    `size` is in bytes, None when unknown.
    """

    key: str
    source: str
    title: str
    pages: int
    references: int | None
    references_style: str
    analysis: Analysis
    method: str
    requests: int
    sha256: str
    created: datetime
    problem: str = ""
    pages_by: Mapping[str, int] = field(default_factory=dict)
    authors: tuple[str, ...] = ()
    year: int | None = None
    licence: str = ""
    open_access: str = ""
    doi: str = ""
    arxiv_id: str = ""
    fetched_from: str = ""
    size: int | None = None
    characters: int | None = None
    read: tuple[PagesRead, ...] = ()
    reference_list: tuple[Reference, ...] = ()
    asked: tuple[Asked, ...] = ()
    prompt_version: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


def title_of(facts: ReportFacts) -> str:
    """The catalogue's title; the model's own where there is none."""
    return facts.title.strip() or facts.analysis.title


def warnings(facts: ReportFacts) -> Iterator[tuple[str, str]]:
    """What a reader must know before the first sentence: a short name and a sentence each."""
    if facts.problem:
        yield PARTIAL, facts.problem
    if facts.method == EXTRACTIVE:
        yield NO_MODEL


def pages_in_words(facts: ReportFacts) -> str:
    """`12 (10 text layer, 2 read by OCR)`."""
    by = [
        f"{facts.pages_by[source]} {words}"
        for source, words in PAGE_SOURCES.items()
        if facts.pages_by.get(source)
    ]
    return f"{facts.pages} ({', '.join(by)})" if by else str(facts.pages)


def references_in_words(facts: ReportFacts) -> str:
    """The count with its style; a list nobody found is not a list of none."""
    if facts.references is None:
        return "no list of references was found"
    style = facts.references_style
    return f"{facts.references} ({style})" if style else str(facts.references)


def method_in_words(facts: ReportFacts) -> str:
    """`m-1, 1 request, 9,000 tokens in and 300 out, prompt 2026-11-1`, as far as known."""
    if facts.method == EXTRACTIVE:
        return "extractive, without a language model"
    said = [
        facts.method.removeprefix("model:"),
        "1 request" if facts.requests == 1 else f"{facts.requests} requests",
    ]
    if facts.prompt_tokens or facts.completion_tokens:
        said.append(f"{facts.prompt_tokens:,} tokens in and {facts.completion_tokens:,} out")
    if facts.prompt_version:
        said.append(f"prompt {facts.prompt_version}")
    return ", ".join(said)


def read_alike(pages: Iterable[tuple[int, str, str]]) -> tuple[PagesRead, ...]:
    """Pages (number, source, reason) put together by how they were read, failures last."""
    alike: dict[tuple[str, str], list[int]] = {}
    for number, source, reason in pages:
        alike.setdefault((source, reason), []).append(number)
    order = list(PAGE_SOURCES)
    rank = {source: order.index(source) if source in order else -1 for source, _ in alike}
    return tuple(
        PagesRead(source, tuple(sorted(alike[source, reason])), reason)
        for source, reason in sorted(alike, key=lambda how: (rank[how[0]], how[1]))
    )


def ranges(numbers: Iterable[int]) -> str:
    """`1-4, 7`: ascending numbers, those that follow each other as one."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


INTERNAL = frozenset({"round", "failed"})
"""What steps note of a look-up for themselves."""


def asked_of(record: Mapping[str, object]) -> Asked:
    """One look-up as its step noted it: its source, and the rest in the order it stands there.

    Without what only steps need, and no query of a URL, which may hold a signature.
    """
    rest = {name: value for name, value in record.items() if name not in INTERNAL}
    if url := rest.get("url"):
        rest["url"] = shown(str(url))
    who = str(rest.pop("source", "") or "unnamed")
    return Asked(who, ", ".join(f"{name}: {in_words(v)}" for name, v in rest.items() if is_told(v)))


def is_told(value: object) -> bool:
    return value not in (None, "", [], {})


def in_words(value: object) -> str:
    """A JSON value for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, value))
    return str(value)


DOI = re.compile(r"10\.\d{3,9}(\.\d+)*/\S+")
ARXIV = re.compile(r"(\d{4}\.\d{4,5}|[a-z-]+(\.[A-Za-z-]{2,})?/\d{7})(v\d{1,4})?")


def doi_link(doi: str) -> str:
    """Where a DOI leads, or "" when it is none: the only hosts a report links to are these two."""
    return f"https://doi.org/{quote(doi, safe='/.-_')}" if DOI.fullmatch(doi) else ""


def arxiv_link(arxiv_id: str) -> str:
    """The page of an arXiv paper, or "" when it is no such id."""
    return f"https://arxiv.org/abs/{arxiv_id}" if ARXIV.fullmatch(arxiv_id) else ""


HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
    "|[\ud800-\udfff]"
)


def plain(text: str) -> str:
    """Without control characters and without those that reverse or hide what stands there."""
    return HIDDEN.sub("", text)


def one_line(text: str) -> str:
    return " ".join(plain(text).split())


def paragraphs(text: str) -> list[str]:
    """Plain text by its blank lines, each paragraph on one line."""
    return [one_line(part) for part in re.split(r"\n\s*\n", text) if part.strip()]
