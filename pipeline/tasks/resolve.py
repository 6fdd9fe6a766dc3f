"""The step that finds where the PDF is: one source a turn, each under its own limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from celery import shared_task

from pipeline import files, lookup_cache
from pipeline.config import PipelineSettings, pipeline_settings
from pipeline.models import Document
from pipeline.steps.identify import Identifier, host_key, identify
from pipeline.steps.resolve.resolve import (
    Resolved,
    Round,
    at_hand,
    conclude,
    excused,
    next_to_ask,
    wait_before,
)
from pipeline.steps.resolve.sources.answer import Address, Answer, Outcome
from pipeline.steps.resolve.sources.lookup_log import Inquiry, this_round
from pipeline.steps.resolve.sources.query import put
from pipeline.steps.resolve.sources.source import ResolveOptions, Source
from pipeline.tasks.documents import done, load, store
from pipeline.tasks.http_client import http_client
from queuemgr import Done, Failed, LeasedTask, Result, Snoozed, StepFailed, Work


@shared_task(base=LeasedTask, name="papers.resolve")
def resolve_step(work: Work) -> Result:
    """Find where the PDF is: ask the one source this lease holds the limit of, or go on to its limit."""
    document = load(work)
    if files.exists(document.pdf):
        return Done()
    identifier = _identified(document)
    if found := at_hand(identifier):
        return done(document, _onward(found), **_columns(found))
    return _Turn(work, document, identifier, options_of(pipeline_settings())).taken()


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
    """An arXiv key holds the version that was asked for; other keys may have been cut."""
    return identify(document.key if document.kind == "arxiv" else document.source)


@dataclass(frozen=True)
class _Turn:
    """What one lease does: at most one request, to the source whose limit it holds."""

    work: Work
    document: Document
    identifier: Identifier
    options: ResolveOptions

    def taken(self) -> Result:
        so_far = self._so_far()
        due = next_to_ask(self.identifier, self.options, so_far)
        if due is None:
            return self._concluded(so_far)
        if due.limit not in self.work.grant.limit_keys.split():
            return self._onward_to(due, so_far)
        return self._asked(due, so_far)

    def _so_far(self) -> Round:
        """The round under way, and after it what is still known from earlier ones."""
        config, name = pipeline_settings(), self.document.key
        known = lookup_cache.kept(name, config.lookup_days, config.lookup_unknown_days)
        past = this_round(self.document.lookups) or excused(self.identifier, self.options)
        so_far = Round()
        for inquiry in past:
            answer = known.answers.get(inquiry.source) if inquiry.outcome in _ANSWERS else None
            if answer or inquiry.outcome not in _ANSWERS:
                so_far = so_far.with_one(inquiry, answer)
        while (due := next_to_ask(self.identifier, self.options, so_far)) and self._is_fresh(
            due, so_far, known
        ):
            answer = known.answers[due.name]
            so_far = so_far.with_one(Inquiry.answered(due, answer, cached=True), answer)
        return so_far

    def _is_fresh(self, due: Source, so_far: Round, known: lookup_cache.Kept) -> bool:
        return due.name in known.fresh and not so_far.of(due)

    def _asked(self, source: Source, so_far: Round) -> Result:
        moved_to = next((i.path for i in reversed(so_far.of(source))), "")
        inquiry, answer = put(
            source, self.identifier, self.options, http_client(), self.work.signal, moved_to
        )
        so_far = so_far.with_one(inquiry, answer)
        learnt = {source.name: answer} if answer else {}
        due = next_to_ask(self.identifier, self.options, so_far)
        if due:
            return self._onward_to(due, so_far, learnt, _word(inquiry))
        if inquiry.outcome != Outcome.FAILED and _is_found(self.identifier, self.options, so_far):
            return self._concluded(so_far, learnt)
        return Snoozed(
            0, "has asked everyone", {"resolver": ""}, self._storing(so_far, learnt), _word(inquiry)
        )

    def _onward_to(
        self,
        due: Source,
        so_far: Round,
        learnt: Mapping[str, Answer] | None = None,
        service: Done | Failed | None = None,
    ) -> Snoozed:
        return Snoozed(
            wait_before(due, so_far),
            f"asks {due.title} next",
            {"resolver": due.name},
            self._storing(so_far, learnt or {}),
            service,
        )

    def _storing(self, so_far: Round, learnt: Mapping[str, Answer], **columns: Any) -> Any:
        """Write the record so far, and keep what was answered."""
        record = [inquiry.as_json() for inquiry in so_far.inquiries]
        written = {"lookups": record, **columns}

        def write() -> None:
            for source, answer in learnt.items():
                lookup_cache.keep(self.document.key, source, answer)
            store(self.document.pk, written)

        return write

    def _concluded(self, so_far: Round, learnt: Mapping[str, Answer] | None = None) -> Result:
        record = [inquiry.as_json() for inquiry in so_far.inquiries]
        try:
            found = conclude(self.identifier, self.options, so_far)
        except StepFailed as failure:
            return self._failed(failure, record)
        best, count = found.addresses[0], len(found.addresses)
        record.append(
            Inquiry.concluded("found", f"{count} to try, the first named by {best.source}")
        )
        columns = {**_columns(found), "lookups": record}
        return Done(_onward(found), self._storing(so_far, learnt or {}, **columns))

    def _failed(self, failure: StepFailed, record: list[dict[str, Any]]) -> Failed:
        """The round is over: the next try, or a person's retry, begins another.

        When everyone answered and nobody had it, another try is a person's wish to ask them all anew.
        """
        record.append(Inquiry.concluded(failure.kind, failure.message))

        def write() -> None:
            store(self.document.pk, {"lookups": record})
            if failure.kind == "unresolvable":
                lookup_cache.forget(self.document.key)

        return Failed(failure.kind, failure.message, failure.retry_after, store=write)


_ANSWERS = frozenset({Outcome.FOUND, Outcome.NO_ADDRESS, Outcome.NOT_KNOWN, Outcome.UNSURE})


def _is_found(identifier: Identifier, options: ResolveOptions, so_far: Round) -> bool:
    try:
        return bool(conclude(identifier, options, so_far).addresses)
    except StepFailed:
        return False


def _word(inquiry: Inquiry) -> Done | Failed:
    """What the source's limit is to hear: whether the service answered."""
    if inquiry.outcome != Outcome.FAILED:
        return Done()
    return Failed(inquiry.kind, inquiry.detail, inquiry.retry_after)


# What the next step is told, and what the document's row learns


def _onward(found: Resolved) -> dict[str, Any]:
    first = found.addresses[0] if found.addresses else None
    return {
        "host_key": host_key(first.url) if first else "",
        "landing": bool(first and first.landing),
        "resolver": "",
    }


def _columns(found: Resolved) -> dict[str, Any]:
    facts = {name: value for name, value in asdict(found.paper).items() if value}
    urls = [address.url for address in found.addresses]
    return {
        **facts,
        "pdf_url": urls[0] if urls else "",
        "other_urls": [_to_try(address) for address in found.addresses[1:]],
        "local_path": found.path,
    }


def _to_try(address: Address) -> dict[str, Any]:
    return {"url": address.url, "source": address.source, "landing": address.landing}
