"""The report on one paper, as Markdown for a researcher and as JSON for a program. Pure."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pipeline.steps.analyse import EXTRACTIVE, Analysis

SCHEMA = 1
"""Version of the JSON report; grows when a field changes its meaning or goes."""

MARKDOWN = re.compile(r"([\\`*_{}\[\]#|~!])")
LINE_START = re.compile(r"^(\s*)([-+=]|\d{1,9}[.)])(?=\s|$|[-=])", re.MULTILINE)
BARE_LINK = re.compile(r"(?<=\w)(://|@)|\b(www)(\.)", re.IGNORECASE)

PAGE_SOURCES = {
    "pypdf": "text layer",
    "ocr": "read by OCR",
    "blank": "blank",
    "failed": "not readable",
}


@dataclass(frozen=True)
class ReportFacts:
    """All a report says. `pages_by` counts pages by `pypdf`, `ocr`, `blank`, `failed`.

    `references` is None when no list was found. `requests` counts paid requests. `problem` is ""
    or says in words what is missing. `created` must be aware.
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


def render_json(facts: ReportFacts) -> str:
    """One JSON object, keys sorted, so that equal facts give equal bytes."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "key": facts.key,
            "source": facts.source,
            "title": title_of(facts),
            "pages": {"total": facts.pages, "by": dict(facts.pages_by)},
            "references": {"count": facts.references, "style": facts.references_style},
            "analysis": facts.analysis.model_dump(mode="json"),
            "method": facts.method,
            "extractive": facts.method == EXTRACTIVE,
            "requests": facts.requests,
            "partial": bool(facts.problem),
            "problem": facts.problem,
            "sha256": facts.sha256,
            "created": facts.created.astimezone(UTC).isoformat(),
        },
        ensure_ascii=False,
        indent=2,
        sort_keys=True,
    )


def render_markdown(facts: ReportFacts) -> str:
    """A page to read: warnings first, then what the paper says, and last how we know.

    Text from the paper or the model is escaped: it forms no heading, link, image or HTML.
    """
    return "\n\n".join(part for part in parts(facts) if part) + "\n"


def parts(facts: ReportFacts) -> Iterator[str]:
    analysis = facts.analysis
    yield f"# {on_one_line(title_of(facts))}"
    yield warnings(facts)
    yield f"## Summary\n\n{paragraphs(analysis.summary)}"
    if analysis.contributions:
        yield "## What it adds\n\n" + bullets(analysis.contributions)
    if analysis.keywords:
        yield "## Keywords\n\n" + " · ".join(map(on_one_line, analysis.keywords))
    yield "## About this report\n\n" + table(facts)


def title_of(facts: ReportFacts) -> str:
    return facts.title.strip() or facts.analysis.title


def warnings(facts: ReportFacts) -> str:
    """What a reader must know before the first sentence, as a block quote."""
    found = []
    if facts.problem:
        found.append(f"**Partial document.** {on_one_line(facts.problem)}")
    if facts.method == EXTRACTIVE:
        found.append(
            "**No language model was used.** The text below consists of sentences picked from "
            "the paper itself; nothing was understood or checked."
        )
    return "\n>\n".join(f"> {warning}" for warning in found)


def table(facts: ReportFacts) -> str:
    rows = {
        "Key": code(facts.key),
        "Source": code(facts.source),
        "Pages": pages(facts),
        "References": references(facts),
        "Analysis": method(facts),
        "SHA-256 of the PDF": code(facts.sha256),
        "Created": facts.created.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    return "\n".join(
        ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]
    )


def pages(facts: ReportFacts) -> str:
    """`12 (10 text layer, 2 read by OCR)`."""
    by = [
        f"{facts.pages_by[source]} {words}"
        for source, words in PAGE_SOURCES.items()
        if facts.pages_by.get(source)
    ]
    return f"{facts.pages} ({', '.join(by)})" if by else str(facts.pages)


def references(facts: ReportFacts) -> str:
    """The count with its style; a list nobody found is not a list of none."""
    if facts.references is None:
        return "no list of references was found"
    style = facts.references_style
    return f"{facts.references} ({on_one_line(style)})" if style else str(facts.references)


def method(facts: ReportFacts) -> str:
    if facts.method == EXTRACTIVE:
        return "extractive, without a language model"
    times = "1 request" if facts.requests == 1 else f"{facts.requests} requests"
    return f"{on_one_line(facts.method.removeprefix('model:'))}, {times}"


def bullets(items: tuple[str, ...]) -> str:
    return "\n".join(f"- {on_one_line(item)}" for item in items)


def paragraphs(text: str) -> str:
    """Escaped text, its blank lines kept as paragraphs."""
    return "\n\n".join(on_one_line(part) for part in re.split(r"\n\s*\n", text) if part.strip())


def on_one_line(text: str) -> str:
    return escaped(" ".join(text.split()))


def escaped(text: str) -> str:
    """Text that every Markdown reader shows as it is; links are not made clickable."""
    text = MARKDOWN.sub(r"\\\1", html.escape(plain(text), quote=False))
    text = BARE_LINK.sub(lambda match: unlinked(match[0]), text)
    return LINE_START.sub(lambda match: match[1] + unlisted(match[2]), text)


def unlinked(sign: str) -> str:
    """Break what readers turn into links by themselves, with a word joiner nobody sees."""
    return sign.replace(":", ":\u2060").replace("@", "@\u2060").replace(".", "\u2060.")


def unlisted(marker: str) -> str:
    """A dash or number at a line's start shown as one, not as a list."""
    return f"\\{marker}" if len(marker) == 1 else f"{marker[:-1]}\\{marker[-1]}"


HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Without control characters and without those that reverse or hide what stands there."""
    return HIDDEN.sub("", text)


def code(text: str) -> str:
    """Verbatim, in a table cell: as HTML, where neither pipes nor backticks can end it."""
    shown = html.escape(" ".join(plain(text).split())).replace("|", "&#124;")
    shown = re.sub(r"[\\`*_\[\]~:@]|(?<=www)\.", lambda sign: f"&#{ord(sign[0])};", shown)
    return f"<code>{shown}</code>"
