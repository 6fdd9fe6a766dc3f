"""The report on one paper as Markdown, for people. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator

from pipeline.steps.analyse.analysis import Analysis
from pipeline.steps.report.claims_report import ShownClaim, shown_claims, shown_fields
from pipeline.steps.report.report import (
    PAGE_SOURCES,
    Fact,
    ReportFacts,
    arxiv_link,
    doi_link,
    links,
    one_line,
    paragraphs,
    plain,
    provenance,
    title_of,
    warnings,
)
from pipeline.steps.report.stated_fields import Reference
from queuemgr.steptools.number_ranges import ranges

MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_{}[]#|~!"})
LINE_START = re.compile(r"^([^\S\n]*)([-+=]|\d{1,9}[.)])(?=\s|$|[-=])", re.MULTILINE)
BARE_LINK = re.compile(r"(?<=\w)(://|@)|\b(www)(\.)", re.IGNORECASE)


def render_markdown(facts: ReportFacts) -> str:
    """Warnings first, then the analysis, and last how it was made.

    Text from the paper or the model is escaped, so that it forms no heading, link, image or HTML.
    """
    return "\n\n".join(section for section in sections(facts) if section) + "\n"


def sections(facts: ReportFacts) -> Iterator[str]:
    analysis = facts.analysis
    yield f"# {on_one_line(title_of(facts))}"
    yield byline(facts)
    yield "\n>\n".join(f"> **{w.name}** {on_one_line(w.text)}" for w in warnings(facts))
    yield "## Summary\n\n" + "\n\n".join(map(escaped, paragraphs(analysis.summary)))
    for heading, claims in shown_claims(analysis.claims()):
        yield f"## {heading}\n\n" + "\n".join(map(claimed, claims))
    if analysis.extracted:
        yield "## Extracted fields\n\n" + fields(analysis)
    if analysis.keywords:
        yield "## Keywords\n\n" + " · ".join(map(on_one_line, analysis.keywords))
    yield "## About this report\n\n" + about(facts)
    if facts.metadata:
        yield "## Metadata\n\n" + metadata(facts)
    if facts.read:
        yield "## How its pages were read\n\n" + reading(facts)
    if facts.lookups:
        entries = (f"{lookup.source}: {lookup.result or '-'}" for lookup in facts.lookups)
        yield "## Sources queried\n\n" + bullets(entries)
    if facts.reference_list:
        yield "## References\n\n" + numbered(facts.reference_list)


def byline(facts: ReportFacts) -> str:
    """Authors and year, as far as they are known."""
    parts = [", ".join(facts.authors), str(facts.year or "")]
    return " · ".join(on_one_line(part) for part in parts if part)


def about(facts: ReportFacts) -> str:
    rows = [f"| {fact.name} | {cell(fact)} |" for fact in (*links(facts), *provenance(facts)) if fact.text]
    return "\n".join(["| | |", "|---|---|", *rows])


def cell(fact: Fact) -> str:
    return code(fact.text) if fact.verbatim else linked(fact.text, fact.link)


def metadata(facts: ReportFacts) -> str:
    """Each field with its source, and what other sources state."""
    rows = (
        f"| {on_one_line(field.name)} | {on_one_line(field.text)} | {on_one_line(field.source)} "
        f"| {on_one_line(field.conflicts_in_words)} |"
        for field in facts.metadata
    )
    return "\n".join(["| field | value | source | others state |", "|---|---|---|---|", *rows])


def reading(facts: ReportFacts) -> str:
    rows = (
        f"| {on_one_line(PAGE_SOURCES.get(pages.source, pages.source))} | {ranges(pages.numbers)} "
        f"| {on_one_line(pages.reason)} |"
        for pages in facts.read
    )
    return "\n".join(["| how | pages | reason |", "|---|---|---|", *rows])


def numbered(references: Iterable[Reference]) -> str:
    return "\n".join(
        "\n".join((f"{n}. {cited(reference)}", *looked_up(reference, n)))
        for n, reference in enumerate(references, start=1)
    )


def looked_up(reference: Reference, number: int) -> Iterator[str]:
    """Below an entry that was looked up: each field with its source, and what others state."""
    indent = " " * len(f"{number}. ")
    for field in reference.fields:
        stated = f"{field.text} ({field.source})" if field.text else "-"
        others = f"; others state: {field.conflicts_in_words}" if field.conflicts else ""
        yield f"{indent}- {on_one_line(f'{field.name}: {stated}{others}')}"


def cited(reference: Reference) -> str:
    ids = (
        linked(reference.doi, doi_link(reference.doi)),
        linked(reference.arxiv_id, arxiv_link(reference.arxiv_id)),
    )
    return " ".join(part for part in (on_one_line(reference.text), *ids) if part)


def linked(text: str, address: str) -> str:
    """A link to an identifier's URL; without one, plain text."""
    return f"[{on_one_line(text)}](<{address}>)" if address else on_one_line(text)


def fields(analysis: Analysis) -> str:
    """The fields of a person's own schema, with their evidence."""
    rows = (
        f"| {on_one_line(field.name)} | {on_one_line(field.value)} | {on_one_line(field.evidence.quote)} "
        f"| {on_one_line(field.evidence.where)} |"
        for field in shown_fields(analysis.extracted, analysis.field_evidence)
    )
    return "\n".join(["| field | value | quote | where |", "|---|---|---|---|", *rows])


def claimed(claim: ShownClaim) -> str:
    """A bullet: the claim, and below it its quote and where it stands."""
    quote = f"“{escaped(claim.quote)}” " if claim.quote else ""
    return f"- {escaped(claim.text)}  \n  {quote}*{escaped(claim.where)}*"


def bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {on_one_line(item)}" for item in items)


def on_one_line(text: str) -> str:
    return escaped(one_line(text))


def escaped(text: str) -> str:
    """Text that every Markdown reader shows unchanged; URLs do not become links."""
    text = html.escape(plain(text), quote=False).translate(MARKDOWN)
    text = BARE_LINK.sub(lambda match: unlinked(match[0]), text)
    return LINE_START.sub(lambda match: match[1] + unlisted(match[2]), text)


def unlinked(sign: str) -> str:
    """Break what readers turn into links automatically, with an invisible word joiner."""
    return sign.replace(":", ":\u2060").replace("@", "@\u2060").replace(".", "\u2060.")


def unlisted(marker: str) -> str:
    """Escape a dash or number at a line's start, which would begin a list."""
    return f"\\{marker}" if len(marker) == 1 else f"{marker[:-1]}\\{marker[-1]}"


def code(text: str) -> str:
    """Verbatim in a table cell: as HTML, which neither pipes nor backticks can end."""
    text_html = html.escape(one_line(text)).replace("|", "&#124;")
    text_html = re.sub(r"[\\`*_\[\]~:@]|(?<=www)\.", lambda sign: f"&#{ord(sign[0])};", text_html)
    return f"<code>{text_html}</code>"
