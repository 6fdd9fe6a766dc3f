"""A document, and what each step has stored about it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Self

from django.db import models
from django.db.models import Exists, OuterRef
from django.utils import timezone

from pipeline.execution_keys import AGAIN, cut_key
from pipeline.steps.http.shown import shown
from pipeline.steps.report.cost import Cost
from queuemgr.extend.models import Execution

FLOW = "papers"

METHOD_CHARACTERS = 120
"""Size of `Document.method`; a longer model name is cut before it is stored."""


class ExtractionSchema(models.Model):
    """A JSON Schema that a person gave of what is extracted from papers. Never changed: another text is
    another row."""

    digest = models.CharField(max_length=64, primary_key=True)
    text = models.TextField(help_text="Compact JSON, in the order of its fields.")
    added_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.digest[:12]


class DocumentQuerySet(models.QuerySet["Document"]):
    def not_enqueued(self) -> Self:
        """Documents that never had an execution."""
        executions = Execution.objects.filter(flow=FLOW, key=OuterRef("key"))
        return self.filter(~Exists(executions), enqueued=False)

    def of_execution(self, key: str) -> Self:
        """The document that the execution of this key is about."""
        return self.filter(key__in=self.keys_of((key,)).values())

    def keys_of(self, executions: Iterable[str]) -> dict[str, str]:
        """The key of the document that each of these is about, by the execution's; those that are gone are
        left out."""
        whole = {key: key.removesuffix(AGAIN) for key in executions}
        there = set(self.filter(key__in={*whole, *whole.values()}).values_list("key", flat=True))
        found = {}
        for key, short in whole.items():
            if of := next((each for each in (key, short) if each in there), None) or self._cut(key):
                found[key] = of
        return found

    def _cut(self, execution: str) -> str | None:
        """The long key that was cut for this execution."""
        if (cut := cut_key(execution)) is None:
            return None
        alike = self.filter(key__startswith=cut.begin).values_list("key", flat=True)
        return next(filter(cut.is_of, alike.iterator()), None)


class Document(models.Model):
    """One paper. Its files are on Django's storage; each step writes its own columns."""

    key = models.CharField(max_length=255, unique=True)
    kind = models.CharField(max_length=8)
    source = models.TextField(help_text="As it was given.")
    enqueued = models.BooleanField(default=False, help_text="It has an execution.")
    asked = models.JSONField(
        default=dict,
        blank=True,
        null=True,
        help_text="Of one that is held: what its execution is to have that others have not.",
    )
    added_at = models.DateTimeField(default=timezone.now)

    title = models.CharField(max_length=500, blank=True)
    authors = models.JSONField(default=list, blank=True)
    year = models.PositiveSmallIntegerField(null=True, blank=True)
    licence = models.CharField(max_length=200, blank=True)
    open_access = models.CharField(max_length=20, blank=True, help_text="As its source calls it.")
    doi = models.CharField(max_length=255, blank=True)
    arxiv_id = models.CharField(max_length=40, blank=True)
    venue = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="Journal or conference."
    )
    abstract = models.TextField(
        blank=True, default="", db_default="", help_text="As printed, or as a service has it."
    )
    keywords = models.JSONField(default=list, blank=True, null=True, help_text="As printed.")
    metadata = models.JSONField(
        default=list,
        blank=True,
        null=True,
        help_text="Every value that a source states, with its confidence.",
    )
    lookups = models.JSONField(
        default=list, blank=True, help_text="The sources asked and their results, and the downloads tried."
    )
    pdf_url = models.TextField(blank=True)
    other_urls = models.JSONField(
        default=list, blank=True, help_text="Tried in this order if the first URL fails."
    )
    local_path = models.TextField(blank=True)

    pdf = models.FileField(max_length=300, blank=True)
    sha256 = models.CharField(max_length=64, blank=True)
    size = models.PositiveBigIntegerField(null=True, blank=True)
    fetched_from = models.TextField(blank=True, help_text="The URL after all redirects.")
    etag = models.CharField(max_length=255, blank=True)
    last_modified = models.CharField(max_length=64, blank=True)

    pages_file = models.FileField(max_length=300, blank=True)
    text = models.FileField(max_length=300, blank=True)
    pages = models.PositiveIntegerField(null=True, blank=True)
    pages_by = models.JSONField(default=dict, blank=True)
    characters = models.PositiveIntegerField(null=True, blank=True)
    references_file = models.FileField(max_length=300, blank=True)
    references = models.PositiveIntegerField(null=True, blank=True)
    references_style = models.CharField(max_length=40, blank=True)
    references_by = models.JSONField(
        default=dict,
        blank=True,
        null=True,
        help_text="How they were read; by another service, also how many are printed, or why it did not.",
    )
    problem = models.TextField(blank=True, help_text="What could not be read, and why.")

    analysis = models.JSONField(default=dict, blank=True)
    method = models.CharField(max_length=METHOD_CHARACTERS, blank=True)
    prompt_version = models.CharField(max_length=40, blank=True)
    prompt_hash = models.CharField(
        max_length=64, blank=True, default="", db_default="", help_text="SHA-256 of the instructions."
    )
    extraction_schema = models.ForeignKey(
        ExtractionSchema, models.PROTECT, null=True, blank=True, related_name="+",
        help_text="By which its analysis extracted fields.",
    )  # fmt: skip
    requests = models.PositiveIntegerField(default=0)
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)
    cached_tokens = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="Of the prompts, those that the endpoint had in its cache."
    )
    micro_usd = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="Millionths of a dollar, of the requests whose cost is known."
    )
    priced_requests = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Requests whose cost is known."
    )

    report_markdown = models.FileField(max_length=300, blank=True)
    report_json = models.FileField(max_length=300, blank=True)
    report_html = models.FileField(max_length=300, blank=True)

    objects = DocumentQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(fields=("id",), condition=models.Q(enqueued=False), name="document_not_enqueued"),
            # With the id a search reads the index alone, a tenth of the table.
            models.Index(fields=("title", "id"), name="document_title"),
            models.Index(fields=("doi", "id"), name="document_doi"),
        )

    def __str__(self) -> str:
        return self.key

    @property
    def source_shown(self) -> str:
        """As it was given, without the query of a URL, which may contain a signature."""
        return shown(self.source) if self.kind == "url" else self.source

    @property
    def cost(self) -> Cost:
        """What its requests to models cost so far."""
        has_tokens = bool(self.prompt_tokens or self.completion_tokens)
        return Cost(self.micro_usd, self.requests, self.priced_requests, has_tokens)

    @property
    def file_stem(self) -> str:
        """A file name: readable, without slashes or dots, and unique for the key."""
        readable = re.sub(r"[^\w-]+", "_", self.key.rpartition("/")[2] or self.key).strip("_")[:60]
        return f"{readable}-{hashlib.sha256(self.key.encode()).hexdigest()[:10]}"


class Lookup(models.Model):
    """A source's answer about an identifier; it is not asked again while the answer is fresh."""

    source = models.CharField(max_length=32)
    name = models.CharField(max_length=255)
    answer = models.JSONField(default=dict)
    asked_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("source", "name"), name="one_lookup_per_source_and_name"),
        )

    def __str__(self) -> str:
        return f"{self.source}: {self.name}"
