"""The report on one paper as Markdown, for a researcher. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from datetime import UTC

from pipeline.steps.report.report import (
    PAGE_SOURCES,
    Reference,
    ReportFacts,
    arxiv_link,
    doi_link,
    method_in_words,
    one_line,
    pages_in_words,
    paragraphs,
    plain,
    ranges,
    references_in_words,
    title_of,
    warnings,
)

MARKDOWN = re.compile(r"([\\`*_{}\[\]#|~!])")
LINE_START = re.compile(r"^(\s*)([-+=]|\d{1,9}[.)])(?=\s|$|[-=])", re.MULTILINE)
BARE_LINK = re.compile(r"(?<=\w)(://|@)|\b(www)(\.)", re.IGNORECASE)


def render_markdown(facts: ReportFacts) -> str:
    """A page to read: warnings first, then what the paper says, and last how we know.

    Text from the paper or the model is escaped: it forms no heading, link, image or HTML.
    """
    return "\n\n".join(part for part in parts(facts) if part) + "\n"


def parts(facts: ReportFacts) -> Iterator[str]:
    analysis = facts.analysis
    yield f"# {on_one_line(title_of(facts))}"
    yield byline(facts)
    yield "\n>\n".join(f"> **{name}** {on_one_line(said)}" for name, said in warnings(facts))
    yield "## Summary\n\n" + "\n\n".join(map(escaped, paragraphs(analysis.summary)))
    if analysis.contributions:
        yield "## What it adds\n\n" + bullets(analysis.contributions)
    if analysis.keywords:
        yield "## Keywords\n\n" + " · ".join(map(on_one_line, analysis.keywords))
    yield "## About this report\n\n" + about(facts)
    if facts.read:
        yield "## How its pages were read\n\n" + reading(facts)
    if facts.asked:
        yield "## Who was asked\n\n" + bullets(f"{a.who}: {a.what or '-'}" for a in facts.asked)
    if facts.reference_list:
        yield "## References\n\n" + numbered(facts.reference_list)


def byline(facts: ReportFacts) -> str:
    """Who wrote it and when, as far as a catalogue said so."""
    said = [", ".join(facts.authors), str(facts.year or "")]
    return " · ".join(on_one_line(part) for part in said if part)


def about(facts: ReportFacts) -> str:
    rows = {
        "Key": code(facts.key),
        "Source": code(facts.source),
        "DOI": linked(facts.doi, doi_link(facts.doi)),
        "arXiv": linked(facts.arxiv_id, arxiv_link(facts.arxiv_id)),
        "Licence": on_one_line(facts.licence),
        "Open access": on_one_line(facts.open_access),
        "Fetched from": code(facts.fetched_from) if facts.fetched_from else "",
        "Pages": pages_in_words(facts),
        "References": on_one_line(references_in_words(facts)),
        "Analysis": on_one_line(method_in_words(facts)),
        "SHA-256 of the PDF": code(facts.sha256),
        "Created": facts.created.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    told = [f"| {name} | {value} |" for name, value in rows.items() if value]
    return "\n".join(["| | |", "|---|---|", *told])


def reading(facts: ReportFacts) -> str:
    rows = (
        f"| {on_one_line(PAGE_SOURCES.get(alike.source, alike.source))} | {ranges(alike.numbers)} "
        f"| {on_one_line(alike.reason)} |"
        for alike in facts.read
    )
    return "\n".join(["| how | pages | why |", "|---|---|---|", *rows])


def numbered(references: Iterable[Reference]) -> str:
    return "\n".join(f"{n}. {cited(reference)}" for n, reference in enumerate(references, start=1))


def cited(reference: Reference) -> str:
    ids = (
        linked(reference.doi, doi_link(reference.doi)),
        linked(reference.arxiv_id, arxiv_link(reference.arxiv_id)),
    )
    return " ".join(part for part in (on_one_line(reference.text), *ids) if part)


def linked(text: str, address: str) -> str:
    """A link of our own making; an identifier that is none of the known forms stays text."""
    return f"[{on_one_line(text)}](<{address}>)" if address else on_one_line(text)


def bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {on_one_line(item)}" for item in items)


def on_one_line(text: str) -> str:
    return escaped(one_line(text))


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


def code(text: str) -> str:
    """Verbatim, in a table cell: as HTML, where neither pipes nor backticks can end it."""
    shown = html.escape(one_line(text)).replace("|", "&#124;")
    shown = re.sub(r"[\\`*_\[\]~:@]|(?<=www)\.", lambda sign: f"&#{ord(sign[0])};", shown)
    return f"<code>{shown}</code>"
