"""Documents in the admin: read-only, with links to their files.

Untrusted text (titles, names, URLs, answers of services) is shown without the characters that hide or
reverse text, and always escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from django.contrib import admin
from django.db import models
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.html import format_html, format_html_join

from pipeline.bibliography import FORMATS, cited_by
from pipeline.models import Document
from pipeline.paper_metadata import fields_of
from pipeline.steps.analyse.analysis import claims_in, extracted_in, field_evidence_in
from pipeline.steps.http.shown import shown
from pipeline.steps.metadata.merge import FieldValue
from pipeline.steps.report.claims_report import shown_claims, shown_fields
from pipeline.steps.report.report import PAGE_SOURCES, arxiv_link, doi_link, one_line, plain, source_lookup
from pipeline.steps.report.stated_fields import in_words, reference_of
from pipeline.steps.resolve.fallback_urls import untried
from pipeline.web.artifact_links import links_of
from pipeline.web.document_filters import CompletenessFilter, KindFilter, MethodFilter, OpenAccessFilter
from pipeline.web.export_view import file_of
from pipeline.web.reread_action import reread
from queuemgr import StepFailed
from queuemgr.extend.admin import ReadOnlyAdmin


def action(form: str) -> Any:
    """The list's action that exports the papers that are ticked."""

    @admin.action(description=f"Export as {FORMATS[form].label}", permissions=["view"])
    def export(modeladmin: Any, request: HttpRequest, chosen: QuerySet[Document]) -> HttpResponseBase:
        return file_of(chosen, form, references=False)

    export.__name__ = f"export_{FORMATS[form].suffix}"
    return export


@admin.register(Document)
class DocumentAdmin(ReadOnlyAdmin):
    list_display = (
        "key", "title", "year", "pages", "references", "method", "problem", "files",
    )  # fmt: skip
    list_filter = (KindFilter, CompletenessFilter, OpenAccessFilter, MethodFilter)
    search_fields = ("key__startswith", "title__istartswith")
    search_help_text = "beginning of a key or a title"
    sortable_by = ()
    ordering = ("-id",)
    reads_detail = True
    deferred = (
        "authors", "lookups", "other_urls", "analysis", "pages_by", "abstract", "keywords", "metadata",
    )  # fmt: skip
    fieldsets = (
        (None, {"fields": ("files", "key", "title", "author_names", "year", "execution")}),
        (
            "Origin",
            {
                "fields": (
                    "source", "doi_linked", "arxiv_linked", "licence", "open_access", "sources_asked",
                    "pdf_url", "other_addresses", "fetched_from", "local_path",
                    ("added_at", "enqueued"), ("etag", "last_modified"),
                )
            },
        ),
        ("Metadata", {"fields": ("venue", "abstract", "printed_keywords", "statements")}),
        (
            "Content",
            {
                "fields": (
                    "problem", "pages_read", ("pages", "characters"),
                    ("references", "references_style", "references_by"), "looked_up", ("size", "sha256"),
                )
            },
        ),
        (
            "Analysis",
            {
                "fields": (
                    "summary", "claims", "extracted", "keywords", ("method", "prompt_version"), "prompt_hash",
                    "extraction_schema",
                    ("requests", "prompt_tokens", "cached_tokens", "completion_tokens"), "what_it_cost",
                )
            },
        ),
    )  # fmt: skip

    actions = [*(action(form) for form in FORMATS), reread]

    def has_enqueue_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("queuemgr.add_execution"))

    def get_readonly_fields(self, request: Any, obj: Any = None) -> list[str]:
        columns = [field.name for field in Document._meta.fields]
        return [*columns, *OWN_ROWS]

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def read_page(self, rows: Sequence[Any]) -> None:
        for row in rows:
            make_displayable(row)

    @admin.display(description="files")
    def files(self, document: Document) -> str:
        links = ((link.address, link.label) for link in links_of(document))
        return format_html_join(" ", '<a href="{}">{}</a>', links)

    @admin.display(description="execution")
    def execution(self, document: Document) -> str:
        url = reverse("admin:queuemgr_execution_changelist")
        return format_html('<a href="{}?q={}">{}</a>', url, document.key, document.key)

    @admin.display(description="authors")
    def author_names(self, document: Document) -> str:
        return one_line(", ".join(map(str, document.authors))) or "-"

    @admin.display(description="printed keywords")
    def printed_keywords(self, document: Document) -> str:
        return one_line(", ".join(map(str, document.keywords or ()))) or "-"

    @admin.display(description="metadata by source")
    def statements(self, document: Document) -> str:
        rows = (
            (one_line(name), one_line(source), f"{confidence:.2f}", one_line(in_words(value))[:300], verdict)
            for name, field in fields_of(document).items()
            for value, source, confidence, verdict in verdicts(field)
        )
        return table(("field", "source", "confidence", "value", ""), rows)

    @admin.display(description="DOI")
    def doi_linked(self, document: Document) -> str:
        return linked(document.doi, doi_link(document.doi))

    @admin.display(description="arXiv")
    def arxiv_linked(self, document: Document) -> str:
        return linked(document.arxiv_id, arxiv_link(document.arxiv_id))

    @admin.display(description="sources asked")
    def sources_asked(self, document: Document) -> str:
        lookups = [source_lookup(record) for record in records(document.lookups)]
        rows = ((one_line(lookup.source), one_line(lookup.result)) for lookup in lookups)
        return table(("source", "result"), rows)

    @admin.display(description="other URLs")
    def other_addresses(self, document: Document) -> str:
        rows = (
            (one_line(candidate.source), one_line(shown(candidate.url)))
            for candidate in untried(records(document.other_urls))
        )
        return table(("named by", "URL"), rows)

    @admin.display(description="pages by how they were read")
    def pages_read(self, document: Document) -> str:
        by = document.pages_by
        known = [(words, by[name]) for name, words in PAGE_SOURCES.items() if by.get(name)]
        other = [(plain(name), by[name]) for name in by if name not in PAGE_SOURCES]
        return table(("how", "pages"), [*known, *other])

    @admin.display(description="references looked up")
    def looked_up(self, document: Document) -> str:
        try:
            rows = list(islice(stated_of_references(document), REFERENCE_ROWS))
        except StepFailed as failure:
            return one_line(failure.message)
        return table(("reference", "field", "value", "source", "others state"), rows)

    @admin.display(description="summary")
    def summary(self, document: Document) -> str:
        return one_line(str(document.analysis.get("summary", ""))) or "-"

    @admin.display(description="claims")
    def claims(self, document: Document) -> str:
        rows = (
            (heading, claim.text, claim.quote, claim.where)
            for heading, claims in shown_claims(claims_in(document.analysis))
            for claim in claims
        )
        return table(("kind", "claim", "quote", "where"), rows)

    @admin.display(description="extracted fields")
    def extracted(self, document: Document) -> str:
        fields = shown_fields(extracted_in(document.analysis), field_evidence_in(document.analysis))
        rows = ((each.name, each.value, each.evidence.quote, each.evidence.where) for each in fields)
        return table(("field", "value", "quote", "where"), rows)

    @admin.display(description="keywords")
    def keywords(self, document: Document) -> str:
        return one_line(", ".join(map(str, document.analysis.get("keywords", ())))) or "-"

    @admin.display(description="cost")
    def what_it_cost(self, document: Document) -> str:
        return str(document.cost) or "-"


SHORT = 16
"""Characters of a cell that is not folded."""

REFERENCE_ROWS = 400
"""Fields of references that are shown."""

OWN_ROWS = (
    "files", "execution", "author_names", "printed_keywords", "statements", "doi_linked",
    "arxiv_linked", "sources_asked", "other_addresses",
    "pages_read", "looked_up", "summary", "claims", "extracted", "keywords", "what_it_cost",
)  # fmt: skip
"""Rows of the page that are not columns."""


def stated_of_references(document: Document) -> Iterator[tuple[object, ...]]:
    """What is stated of each reference that was looked up; all that is known of them is in the report."""
    for number, record in enumerate(cited_by(document), start=1):
        for each in reference_of(record).fields:
            yield (
                number, one_line(each.name), each.text[:300], one_line(each.source),
                one_line(each.conflicts_in_words)[:300],
            )  # fmt: skip


def verdicts(field: FieldValue) -> Iterator[tuple[object, str, float, str]]:
    """Each value that is stated of a field, its source and confidence, and whether it is the one chosen."""
    conflicts = set(map(id, field.conflicts))
    yield field.chosen.value, field.chosen.source, field.chosen.confidence, "chosen"
    for other in field.others:
        verdict = "differs" if id(other) in conflicts else "agrees"
        yield other.value, other.source, other.confidence, verdict


def make_displayable(document: Document) -> None:
    """Remove characters that hide or reverse text, and the queries of URLs, from a row that is only shown
    and never saved."""
    if document.__dict__.get("source"):
        document.source = document.source_shown
    for name in ("pdf_url", "fetched_from"):
        if document.__dict__.get(name):
            setattr(document, name, shown(getattr(document, name)))
    for column in Document._meta.fields:
        loaded = column.attname in document.__dict__
        if loaded and isinstance(column, models.CharField | models.TextField):
            setattr(document, column.attname, plain(getattr(document, column.attname)))


def linked(text: str, address: str) -> str:
    """A link to the URL of an identifier; without one, text."""
    if not address:
        return text or "-"
    return format_html('<a href="{}" rel="noreferrer noopener">{}</a>', address, text)


def records(value: Any) -> Iterable[Mapping[str, Any]]:
    """The mappings in a JSON column, ignoring anything else."""
    return [record for record in value if isinstance(record, Mapping)] if value else []


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A small table, or a dash if it is empty."""
    body = format_html_join("", "<tr>{}</tr>", ((cells("td", row),) for row in rows))
    if not body:
        return "-"
    return format_html(
        '<div class="sg-status sg-table" tabindex="0" role="region" aria-label="{}"><table><thead><tr>{}</tr>'
        "</thead><tbody>{}</tbody></table></div>",
        ", ".join(filter(None, columns)), cells("th", columns), body,
    )  # fmt: skip


def cells(tag: str, row: Sequence[object]) -> str:
    """On a narrow screen short ones stay on a line, others are as wide as a few words."""
    shaped = (("sg-line" if len(str(cell)) <= SHORT else "sg-words", cell) for cell in row)
    return format_html_join("", f'<{tag} class="{{}}">{{}}</{tag}>', shaped)
