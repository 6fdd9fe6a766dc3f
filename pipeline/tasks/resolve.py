"""The step that finds where the PDF is: one source a lease, each under its own limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from celery import shared_task

from pipeline import files, lookup_cache
from pipeline.config import PipelineSettings, pipeline_settings
from pipeline.models import Document
from pipeline.paper_metadata import by_catalogues, with_statements
from pipeline.steps.identify import Identifier, host_key, identify
from pipeline.steps.resolve.resolve import (
    Resolved,
    conclude,
    next_source,
    resume,
    seconds_before,
    without_lookup,
)
from pipeline.steps.resolve.resolve_state import ResolveState
from pipeline.steps.resolve.sources.answer import Address, Answer, Outcome
from pipeline.steps.resolve.sources.lookup_log import Inquiry
from pipeline.steps.resolve.sources.query import query_source
from pipeline.steps.resolve.sources.source import ResolveOptions, Source
from pipeline.tasks.documents import done, load, store
from pipeline.tasks.http_client import http_client
from queuemgr import Done, Failed, LeasedTask, Result, Snoozed, StepFailed, Work


@shared_task(base=LeasedTask, name="papers.resolve")
def resolve_step(work: Work) -> Result:
    """Find where the PDF is: ask the source whose limit this lease holds, or wait for that limit."""
    document = load(work)
    if files.exists(document.pdf):
        return Done()
    identifier = _identified(document)
    if found := without_lookup(identifier):
        return done(document, _context_for_fetch(found), **_columns(found))
    return _Lookup(work, document, identifier, options_of(pipeline_settings())).run()


def options_of(config: PipelineSettings) -> ResolveOptions:
    return ResolveOptions(
        contact_email=config.contact_email,
        order=config.sources,
        ask_every_source=config.ask_every_source,
        arxiv_metadata=config.arxiv_metadata,
        arxiv_url=config.arxiv_url,
        unpaywall_url=config.unpaywall_url,
        crossref_url=config.crossref_url,
        openalex_url=config.openalex_url,
        semanticscholar_url=config.semanticscholar_url,
        openalex_api_key=config.openalex_api_key.get_secret_value(),
        semanticscholar_api_key=config.semanticscholar_api_key.get_secret_value(),
        deadline=config.http_timeout,
    )


def _identified(document: Document) -> Identifier:
    """From the key for arXiv papers, since it contains the version; other keys may be shortened."""
    return identify(document.key if document.kind == "arxiv" else document.source)


@dataclass(frozen=True)
class _Lookup:
    """The work of one lease: at most one request, to the source whose limit the lease holds."""

    work: Work
    document: Document
    identifier: Identifier
    options: ResolveOptions

    def run(self) -> Result:
        state = self._state()
        source = self._next_source(state)
        if source is None:
            return self._concluded(state)
        if source.limit not in self.work.grant.limit_keys.split():
            return self._wait_for(source, state)
        return self._asked(source, state)

    def _state(self) -> ResolveState:
        config = pipeline_settings()
        with self.work.database():
            cached = lookup_cache.cached_answers(
                self.document.key, config.lookup_days, config.lookup_unknown_days
            )
        return resume(self.identifier, self.options, self.document.lookups, cached)

    def _next_source(self, state: ResolveState) -> Source | None:
        return next_source(self.identifier, self.options, state)

    def _asked(self, source: Source, state: ResolveState) -> Result:
        moved_to = next((i.path for i in reversed(state.inquiries_at(source))), "")
        inquiry, answer = query_source(
            source, self.identifier, self.options, http_client(), self.work.signal, moved_to
        )
        state = state.with_inquiry(inquiry, answer)
        new = {source.name: answer} if answer else {}
        if following := self._next_source(state):
            return self._wait_for(following, state, new, _service_result(inquiry))
        if inquiry.outcome != Outcome.FAILED and self._is_found(state):
            return self._concluded(state, new)
        reason = "all sources have been asked"
        store_state, service = self._store(state, new), _service_result(inquiry)
        return Snoozed(0, reason, {"resolver": ""}, store_state, service)

    def _is_found(self, state: ResolveState) -> bool:
        try:
            return bool(conclude(self.identifier, self.options, state).addresses)
        except StepFailed:
            return False

    def _wait_for(
        self,
        source: Source,
        state: ResolveState,
        new: Mapping[str, Answer] | None = None,
        service: Done | Failed | None = None,
    ) -> Snoozed:
        """Come back under the limit of this source."""
        return Snoozed(
            seconds_before(source, state),
            f"asks {source.title} next",
            {"resolver": source.name},
            self._store(state, new or {}),
            service,
        )

    def _store(self, state: ResolveState, new: Mapping[str, Answer], **columns: Any) -> Callable[[], None]:
        """Store the inquiries so far, and cache new answers."""
        written = {"lookups": state.to_lookups(), **columns}

        def write() -> None:
            for source, answer in new.items():
                lookup_cache.save_answer(self.document.key, source, answer)
            store(self.document.pk, written)

        return write

    def _concluded(self, state: ResolveState, new: Mapping[str, Answer] | None = None) -> Result:
        lookups = state.to_lookups()
        try:
            found = conclude(self.identifier, self.options, state)
        except StepFailed as failure:
            return self._failed(failure, lookups)
        best, count = found.addresses[0], len(found.addresses)
        lookups.append(Inquiry.concluded("found", f"{count} to try, the first named by {best.source}"))
        stated = with_statements(self.document, by_catalogues(state.answers))
        columns = {**_columns(found), "lookups": lookups, **stated}
        return Done(_context_for_fetch(found), self._store(state, new or {}, **columns))

    def _failed(self, failure: StepFailed, lookups: list[dict[str, Any]]) -> Failed:
        """The round is over; a retry begins another one.

        When all sources answered and none had it, a person's retry asks all of them again.
        """
        lookups.append(Inquiry.concluded(failure.kind, failure.message))

        def write() -> None:
            store(self.document.pk, {"lookups": lookups})
            if failure.kind == "unresolvable":
                lookup_cache.delete_answers(self.document.key)

        return Failed(failure.kind, failure.message, failure.retry_after, store=write)


def _service_result(inquiry: Inquiry) -> Done | Failed:
    """The result to report to the source's limit: whether the service answered."""
    if inquiry.outcome != Outcome.FAILED:
        return Done()
    return Failed(inquiry.kind, inquiry.detail, inquiry.retry_after)


def _context_for_fetch(found: Resolved) -> dict[str, Any]:
    first = found.addresses[0] if found.addresses else None
    return {
        "host_key": host_key(first.url) if first else "",
        "landing": bool(first and first.landing),
        "resolver": "",
    }


def _columns(found: Resolved) -> dict[str, Any]:
    access = {"licence": found.paper.licence, "open_access": found.paper.open_access}
    facts = {name: value for name, value in access.items() if value}
    urls = [address.url for address in found.addresses]
    return {
        **facts,
        "pdf_url": urls[0] if urls else "",
        "other_urls": [_candidate(address) for address in found.addresses[1:]],
        "local_path": found.path,
    }


def _candidate(address: Address) -> dict[str, Any]:
    return {"url": address.url, "source": address.source, "landing": address.landing}
