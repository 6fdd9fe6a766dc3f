"""The step that asks a service about the DOI or arXiv id that a paper prints, one a lease.

It only adds to what is known, so no failure of a service holds the paper up: the next one is asked, or none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from celery import shared_task

from pipeline import lookup_cache
from pipeline.config import pipeline_settings
from pipeline.models import Document
from pipeline.paper_metadata import by_catalogues, fields_of, with_statements
from pipeline.printed_lookup import identifier_for, is_about
from pipeline.steps.identify import Identifier
from pipeline.steps.metadata.merge import FieldValue
from pipeline.steps.resolve.resolve import SOURCES
from pipeline.steps.resolve.sources.answer import Answer, Outcome
from pipeline.steps.resolve.sources.lookup_log import PRINTED, Inquiry
from pipeline.steps.resolve.sources.query import query_source
from pipeline.steps.resolve.sources.source import Source
from pipeline.tasks.documents import load, store
from pipeline.tasks.http_client import http_client
from pipeline.tasks.pages import read_pages
from pipeline.tasks.resolve import options_of
from queuemgr import Done, Failed, LeasedTask, Result, Snoozed, Work

DEADLINE = 20.0
"""Most seconds for an answer: the paper waits for it, and can do without."""

OTHER_PAPER = 0.2
"""The confidence in a record whose title is not that of the paper."""


@shared_task(base=LeasedTask, name="papers.metadata")
def metadata_step(work: Work) -> Result:
    """Ask the service whose limit this lease holds, or wait for that limit."""
    document, left = load(work), list(work.inputs.get("services_left") or ())
    fields = fields_of(document)
    if not left or (identifier := identifier_for(left[0], fields)) is None:
        return _next(left[1:], "nothing to ask it about") if left else _finished()
    return _Question(work, document, fields, SOURCES[left[0]], identifier, left[1:]).answered()


class _Question:
    """One service, asked about one paper."""

    def __init__(
        self, work: Work, document: Document, fields: dict[str, FieldValue],
        source: Source, identifier: Identifier, left: list[str],
    ) -> None:  # fmt: skip
        self._work, self._document, self._fields = work, document, fields
        self._source, self._identifier, self._left = source, identifier, left

    def answered(self) -> Result:
        source, config = self._source, pipeline_settings()
        options = replace(options_of(config), deadline=min(config.http_timeout, DEADLINE))
        if reason := source.unavailable_reason(options):
            return _next(self._left, f"{source.title} is not asked: {reason}")
        if known := self._cached():
            return self._concluded(Inquiry.answered(source, known, cached=True), known)
        if source.limit not in self._work.grant.limit_keys.split():
            return Snoozed(0, f"asks {source.title} next", {"resolver": source.name})
        moved_to = str(self._work.inputs.get("moved_to") or "")
        inquiry, answer = query_source(
            source, self._identifier, options, http_client(), self._work.signal, moved_to
        )
        if inquiry.outcome == Outcome.MOVED and not moved_to:
            return Snoozed(0, f"{source.title} moved it", {"moved_to": inquiry.path}, service_result=Done())
        return self._concluded(inquiry, answer)

    def _cached(self) -> Answer | None:
        config = pipeline_settings()
        with self._work.database():
            cached = lookup_cache.cached_answers(
                self._identifier.key, config.lookup_days, config.lookup_unknown_days
            )
        return cached.answers.get(self._source.name) if self._source.name in cached.fresh else None

    def _concluded(self, inquiry: Inquiry, answer: Answer | None) -> Result:
        """Store the answer; without one ask the next service."""
        store_it = self._store(inquiry, answer)
        if answer is not None and answer.paper.title:
            return replace(_finished(), store=store_it)
        service = _refusal(inquiry)
        if self._left:
            return replace(_next(self._left, inquiry.detail), store=store_it, service_result=service)
        return replace(_finished(), store=store_it, service_result=service)

    def _store(self, inquiry: Inquiry, answer: Answer | None) -> Callable[[], None]:
        log = [*self._document.lookups, {**inquiry.to_json(), "about": PRINTED}]
        columns: dict[str, Any] = {"lookups": log}
        if answer is not None and answer.paper.title:
            columns |= with_statements(self._document, self._statements(answer))

        def write() -> None:
            if answer is not None and not inquiry.cached:
                lookup_cache.save_answer(self._identifier.key, self._source.name, answer)
            store(self._document.pk, columns)

        return write

    def _statements(self, answer: Answer) -> dict[str, Any]:
        """What the answer states: of another paper, if its title is not printed here, next to nothing."""
        stated = by_catalogues({self._source.name: answer})
        pages = read_pages(self._document)
        front = pages[0].text[:20_000].split("\n") if pages else []
        titles = [str(each.value) for each in _all(self._fields.get("title"))]
        if not (front or titles) or is_about(answer.paper.title, [*titles, *front]):
            return dict(stated)
        return {
            source: [replace(each, confidence=OTHER_PAPER) for each in candidates]
            for source, candidates in stated.items()
        }


def _all(field: FieldValue | None) -> tuple[Any, ...]:
    return (field.chosen, *field.others) if field else ()


def _next(left: list[str], reason: str) -> Snoozed:
    """Go on with the next service, or end where there is none."""
    following = left[0] if left else ""
    return Snoozed(0, reason, {"services_left": left, "resolver": following, "moved_to": ""})


def _finished() -> Done:
    return Done({"services_left": [], "resolver": "", "moved_to": ""})


def _refusal(inquiry: Inquiry) -> Failed | None:
    """What its limit hears of a failure: only that it asks for fewer requests. Work that cannot do without
    the service finds out itself whether it is there; papers that can must not wait for it."""
    if inquiry.kind != "rate_limited":
        return None
    return Failed(inquiry.kind, inquiry.detail, inquiry.retry_after)
