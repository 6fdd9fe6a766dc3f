"""The step that stores the PDF."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from celery import shared_task
from django.utils import timezone

from pipeline import files, intake
from pipeline.config import pipeline_settings
from pipeline.host_limits import ARXIV, limits_for_pdf
from pipeline.models import Document
from pipeline.paper_metadata import with_statements
from pipeline.steps.fetch.download import FetchOptions, PdfRequest, StoredCopy
from pipeline.steps.fetch.fetch import Fetched, OtherHost, Unchanged, adopt, fetch
from pipeline.steps.fetch.fetch_state import FetchState, next_request
from pipeline.steps.http.minimum_speed import MinimumSpeed
from pipeline.steps.http.redirects import RedirectChain, key_of_host
from pipeline.steps.http.shown import shown
from pipeline.steps.metadata.candidates import candidates
from pipeline.steps.resolve.fallback_urls import (
    FAILURES_PER_URL,
    SUCCESSES,
    CandidateUrl,
    failures_in_round,
    log_entry,
    remaining,
    untried,
    without,
)
from pipeline.steps.resolve.sources.arxiv import interpret_refusal
from pipeline.tasks.documents import done, load, store
from pipeline.tasks.http_client import http_client
from queuemgr import AttemptsSoFar, Done, Failed, LeasedTask, Snoozed, StepFailed, Work
from queuemgr.steptools.process_lanes import lane_slot

LONG_WAIT = 900.0
"""Seconds: a host that asks us to wait longer is left for another known URL at once. Our own choice:
waits of minutes mean a busy host, longer ones that it refuses us."""

PAGE_CONFIDENCE = 0.91
"""Confidence in the tags of a publisher's page: what it deposits at Crossref is checked more often."""

LOCAL_KINDS = frozenset({"storage", "unexpected"})
"""Kinds of failure that another URL would not help."""


@shared_task(base=LeasedTask, name="papers.fetch")
def fetch_step(work: Work) -> Done | Snoozed:
    """Download the PDF, or copy it from a local file; nothing to do when it is stored already.

    With `refetch` in the payload a stored PDF is requested again, and kept if it has not changed.
    """
    document = load(work)
    has_copy = files.holds(document.pdf, document.size)
    if document.local_path and not has_copy:
        return _adopted(document, work)
    if has_copy and not (work.inputs.get("refetch") and document.pdf_url):
        return Done()
    return _UrlFetch(document, work, has_copy=has_copy).run()


def _adopted(document: Document, work: Work) -> Done:
    with lane_slot("import", work.signal):
        path = Path(document.local_path)
        adopted = adopt(path, files.scratch(), _options(), work.signal, intake.folder_of(path))
    return done(document, **_store_file(work, adopted), fetched_from=adopted.final_url)


def _options() -> FetchOptions:
    config = pipeline_settings()
    return FetchOptions(
        config.fetch_max_bytes,
        config.fetch_deadline,
        config.allow_private_addresses,
        speed=MinimumSpeed(config.fetch_min_speed, config.fetch_min_speed_seconds),
    )


def _store_file(work: Work, fetched: Fetched) -> dict[str, Any]:
    """Store the file under the hash of its bytes; returns the columns that describe it."""
    name = f"pdf/{fetched.sha256[:2]}/{fetched.sha256}.pdf"
    stored = files.promote_once(work, fetched.path, name)
    return {"pdf": stored, "sha256": fetched.sha256, "size": fetched.size}


class _UrlFetch:
    """One run of the step for a document that has a URL."""

    def __init__(self, document: Document, work: Work, *, has_copy: bool) -> None:
        self._document, self._work, self._has_copy = document, work, has_copy
        self._state = FetchState.from_context(work.inputs)
        self._candidate = CandidateUrl(document.pdf_url, "", bool(work.inputs.get("landing")))

    def run(self) -> Done | Snoozed:
        try:
            return self._leave_failing_url() or self._change_host() or self._fetched()
        except StepFailed as failure:
            return self._failed(self._interpreted(failure))

    def _interpreted(self, failure: StepFailed) -> StepFailed:
        """A 403 of arXiv opens its breaker: more requests would be taken for an attack."""
        if ARXIV not in limits_for_pdf(self._work.inputs, pipeline_settings().arxiv_url):
            return failure
        interpreted = interpret_refusal(failure)
        interpreted.limit = interpreted.limit or ARXIV
        return interpreted

    def _leave_failing_url(self) -> Snoozed | None:
        """Continue with another URL, if there is one, when this one has failed often enough.

        Decided at the start of a run, so that the failures themselves reach their host's limit.
        """
        if not self._others:
            return None
        failures = self._attempts.failures[self._state.failures_before_url :]
        return self._next_url(*failures[-1]) if len(failures) >= FAILURES_PER_URL else None

    def _change_host(self) -> Snoozed | None:
        """Come back under the limit of the host to be asked, unless this lease already holds it."""
        if self._state.redirect_url:
            self._state = self._state.in_round(self._attempts.round)
        self._state, self._url, host = next_request(
            self._state, self._document.pdf_url, self._work.inputs.get("host_key", ""), time.time()
        )
        if host == self._work.inputs.get("host_key"):
            return None
        context = {"host_key": host, **self._state.to_context()}
        return Snoozed(0, f"continues at {host}", context)

    def _fetched(self) -> Done | Snoozed:
        chain = RedirectChain.from_context(self._work.inputs["host_key"], self._state.chain)
        was_from_page = chain.from_page
        request = PdfRequest(self._url, self._candidate.landing, self._stored_copy())
        found = fetch(request, files.scratch(), _options(), http_client(), self._work.signal, chain)
        match found:
            case OtherHost():
                if found.chain.from_page and not was_from_page:
                    return self._linked_from_page(found)
                return self._redirected(found)
            case Unchanged():
                return self._done("unchanged", "")
            case Fetched():
                return self._done("kept", found.note, **self._columns(found), **self._stated(chain))

    def _stored_copy(self) -> StoredCopy:
        if not self._has_copy or self._state.url_changed:
            return StoredCopy()
        return StoredCopy(self._document.etag, self._document.last_modified)

    def _columns(self, fetched: Fetched) -> dict[str, Any]:
        return {
            **_store_file(self._work, fetched),
            "fetched_from": shown(fetched.final_url),
            "etag": fetched.etag if len(fetched.etag) <= 255 else "",
            "last_modified": fetched.last_modified if len(fetched.last_modified) <= 64 else "",
        }

    def _done(self, outcome: str, message: str, **columns: Any) -> Done:
        context = FetchState().to_context() if self._state != FetchState() else {}
        if outcome in SUCCESSES and self._document.other_urls:
            columns["other_urls"] = [a.to_json() for a in untried(self._document.other_urls)]
        return done(self._document, context, **columns, lookups=self._logged(outcome, message))

    def _logged(self, outcome: str, message: str) -> list[Any]:
        """The lookups with one more entry, about this URL."""
        round_ = "" if outcome in SUCCESSES else self._attempts.round
        entry = log_entry(self._candidate, outcome, message, timezone.now(), round_)
        return [*self._document.lookups, entry]

    def _stated(self, chain: RedirectChain) -> dict[str, Any]:
        """The columns with what the page said of the paper, if the PDF was named by one."""
        if not chain.stated:
            return {}
        stated = list(candidates(chain.stated, "landing page", PAGE_CONFIDENCE))
        return with_statements(self._document, {"landing page": stated})

    def _redirected(self, found: OtherHost) -> Snoozed:
        """Continue where a redirect leads, under that host's limit."""
        host = key_of_host(found.url)
        state = self._state.redirected(
            found.url, found.chain, now=time.time(), round_=self._attempts.round,
            failures=len(self._attempts.failures),
        )  # fmt: skip
        return Snoozed(0, f"redirected to {host}", {"host_key": host, **state.to_context()})

    def _linked_from_page(self, found: OtherHost) -> Snoozed:
        """Continue with the PDF that a page names at another host."""
        host = key_of_host(found.url)
        reason = f"its page names a PDF at {host}"
        logged = self._logged("page", reason)
        columns = {"pdf_url": found.url, "lookups": logged, **self._stated(found.chain)}
        state = self._state.linked_from_page(found.chain)
        context = {"host_key": host, "landing": False, **state.to_context()}
        return self._snoozed(reason, columns, context)

    def _next_url(self, kind: str, message: str, service: Failed | None = None) -> Snoozed:
        """Continue with the next URL under its host's limit; `service` is reported to this one's.

        A URL that failed is tried again after all others, if a person has the document retried.
        """
        following = self._others[0]
        host = key_of_host(following.url)
        rest = without(self._document.other_urls, following.url)
        failed = replace(self._candidate, failed_round=self._attempts.round)
        columns = {
            "pdf_url": following.url,
            "other_urls": [url.to_json() for url in (*rest, failed)],
            "lookups": self._logged(kind, message),
        }
        state = FetchState(failures_before_url=len(self._attempts.failures), url_changed=True)
        context = {"host_key": host, "landing": following.landing, **state.to_context()}
        return self._snoozed(f"{kind}; continues at {host}", columns, context, service)

    def _snoozed(
        self, reason: str, columns: dict[str, Any], context: dict[str, Any], service: Failed | None = None
    ) -> Snoozed:
        return Snoozed(0, reason, context, lambda: store(self._document.pk, columns), service)

    def _failed(self, failure: StepFailed) -> Done | Snoozed:
        """What follows a failure at this URL: another URL, our stored copy unchanged, or the failure."""
        if failure.kind in LOCAL_KINDS:
            raise failure
        failures = len(self._attempts.failures)
        if self._state.is_expired_link(failure, now=time.time(), failures=failures):
            return self._restarted(failure)
        waits_long = (failure.retry_after or 0) > LONG_WAIT and bool(self._others)
        if not waits_long and not self._work.is_last_attempt(failure.kind, failures):
            raise failure
        if self._others:
            return self._next_url(failure.kind, failure.message, _for_host(failure))
        if self._has_copy:
            kept = self._done(failure.kind, f"the stored copy is kept; {failure.message}")
            return replace(kept, service_result=_for_host(failure))
        raise self._with_earlier_failures(failure)

    def _restarted(self, failure: StepFailed) -> Snoozed:
        host = key_of_host(self._document.pdf_url)
        context = {"host_key": host, **self._state.restarted().to_context()}
        reason = f"a redirect from {host} has expired; requesting it again"
        return Snoozed(0, reason, context, service_result=_for_host(failure))

    def _with_earlier_failures(self, last: StepFailed) -> StepFailed:
        earlier = failures_in_round(self._document.lookups, self._attempts.round)
        if not earlier:
            return last
        message = f"{last.message}; tried before it: {earlier}"
        return StepFailed(
            last.kind, message, retry_after=last.retry_after, http_status=last.http_status,
            limit=last.limit,
        )  # fmt: skip

    @cached_property
    def _others(self) -> list[CandidateUrl]:
        """The URLs left to try, without those that name no host."""
        document = self._document
        if not document.other_urls:
            return []
        found = remaining(document.other_urls, document.pdf_url, self._attempts.round)
        return [candidate for candidate in found if _has_host(candidate.url)]

    @cached_property
    def _attempts(self) -> AttemptsSoFar:
        return self._work.attempts_so_far()


def _for_host(failure: StepFailed) -> Failed:
    """What is reported to the limit of the host about a failure that does not end this step's work."""
    return Failed(failure.kind, failure.message, failure.retry_after, limit=failure.limit)


def _has_host(url: str) -> bool:
    try:
        return bool(key_of_host(url))
    except StepFailed:
        return False
