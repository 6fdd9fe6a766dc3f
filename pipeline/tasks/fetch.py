"""The step that brings the PDF to our storage."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from celery import shared_task
from django.db import connection
from django.utils import timezone

from pipeline import files
from pipeline.config import pipeline_settings
from pipeline.host_limits import ARXIV, asked_for_pdf
from pipeline.models import Document
from pipeline.steps.fetch.download import Asked, EarlierCopy, FetchOptions
from pipeline.steps.fetch.fetch import Elsewhere, Fetched, Unchanged, adopt, fetch
from pipeline.steps.http.minimum_speed import MinimumSpeed
from pipeline.steps.http.redirects import Trip, key_of_host
from pipeline.steps.http.safe_addresses import shown
from pipeline.steps.resolve.fallback_urls import (
    PATIENCE,
    WELL,
    Address,
    failed_in,
    left,
    line,
    untried,
    without,
)
from pipeline.steps.resolve.sources.arxiv import refused
from pipeline.tasks.documents import done, load, store
from pipeline.tasks.http_client import http_client
from queuemgr import Done, Failed, LeasedTask, Snoozed, StepFailed, Work
from queuemgr.extend.models import Attempt, Execution, Outcome
from queuemgr.scheduling import retry_policies

REDIRECT_LASTS = 300.0
"""Seconds after which a redirect may have run out, as links signed for a moment do: when its host then
refuses it, it is asked for again."""

RUN_OUT = frozenset({401, 403, 404, 410})
"""Statuses by which hosts refuse a signed link that has run out."""

LONG_WAIT = 900.0
"""Seconds a host may ask us to wait before another address that is known is turned to at once. The
figure is ours: waits of minutes are a busy host's, longer ones shut out."""

OUR_OWN = frozenset({"storage", "unexpected"})
"""Kinds of failure no other address would mend."""


@shared_task(base=LeasedTask, name="papers.fetch")
def fetch_step(work: Work) -> Done | Snoozed:
    """Have the PDF on our storage: downloaded, or copied from a local file, or there already.

    A payload that says `refetch` has a PDF we hold asked for again, and kept where it is unchanged.
    """
    document = load(work)
    here = files.holds(document.pdf, document.size)
    if document.local_path and not here:
        return _adopted(document, work)
    if here and not (work.inputs.get("refetch") and document.pdf_url):
        return Done()
    return _Fetching(document, work, here=here).run()


def _adopted(document: Document, work: Work) -> Done:
    adopted = adopt(Path(document.local_path), files.scratch(), _options(), work.signal)
    return done(document, **_kept(work, adopted), fetched_from=adopted.final_url)


def _options() -> FetchOptions:
    config = pipeline_settings()
    return FetchOptions(
        config.fetch_max_bytes,
        config.fetch_deadline,
        config.allow_private_addresses,
        speed=MinimumSpeed(config.fetch_min_speed, config.fetch_min_speed_seconds),
    )


def _kept(work: Work, fetched: Fetched) -> dict[str, Any]:
    """Put the file in its place, named by its bytes; returns the columns that tell of it."""
    name = f"pdf/{fetched.sha256[:2]}/{fetched.sha256}.pdf"
    stored = files.promote_once(work, fetched.path, name)
    return {"pdf": stored, "sha256": fetched.sha256, "size": fetched.size}


class _Fetching:
    """One run of the step for a document that has an address.

    What one run leaves for the next is in the context under `fetch`: `url`, where a redirect led,
    `until`, when that is too old, `failed`, how many failures there were before it, and `round`, in
    which it was given; `trip`, its cookies and such; `failures`, how many there were when this address
    was turned to; `moved`, whether it is another than the one our copy came from.
    """

    def __init__(self, document: Document, work: Work, *, here: bool) -> None:
        self._document, self._work, self._here = document, work, here
        self._said: dict[str, Any] = work.inputs.get("fetch") or {}
        self._address = Address(document.pdf_url, "", bool(work.inputs.get("landing")))

    def run(self) -> Done | Snoozed:
        try:
            return self._tired() or self._at_another_host() or self._fetched()
        except StepFailed as failure:
            return self._failed(self._as_its_host_means(failure))

    def _as_its_host_means(self, failure: StepFailed) -> StepFailed:
        """arXiv takes requests after a 403 for an attack: it is left alone, by the whole fleet."""
        if ARXIV not in asked_for_pdf(self._work.inputs, pipeline_settings().arxiv_url):
            return failure
        meant = refused(failure)
        meant.limit = meant.limit or ARXIV
        return meant

    def _tired(self) -> Snoozed | None:
        """Turn to another address, where there is one, when this one failed often enough.

        Done at the start of a run: the failures themselves are told to the limits of their hosts.
        """
        if not self._others:
            return None
        here = self._failures[int(self._said.get("failures", 0)) :]
        connection.close()
        return self._onward(*here[-1]) if len(here) >= PATIENCE else None

    def _at_another_host(self) -> Snoozed | None:
        """Come back under the limit of the host that is to be asked, if this run is not.

        A redirect that grew old while it waited for its host's turn is followed all the same: asked
        for anew it would wait as long again. Whether it still holds is for that host to say.
        """
        self._forget_another_rounds()
        self._url = str(self._said.get("url", "")) or self._document.pdf_url
        host = key_of_host(self._url)
        if host != self._work.inputs.get("host_key") and self._said.get("url") and self._is_old():
            self._said = self._without_redirect()
            self._url = self._document.pdf_url
            host = key_of_host(self._url)
        if host == self._work.inputs.get("host_key"):
            return None
        return Snoozed(0, f"goes on at {host}", {"host_key": host, "fetch": self._said})

    def _forget_another_rounds(self) -> None:
        """A person's retry begins where the chain began, with no redirect counted."""
        if not self._said.get("url"):
            return
        if self._said.get("round") != self._round:
            self._said = self._without_redirect(counted=False)
        connection.close()

    def _is_old(self) -> bool:
        return time.time() >= float(self._said.get("until", 0))

    def _without_redirect(self, *, counted: bool = True) -> dict[str, Any]:
        """What was said, back at the address the chain began from.

        Redirects stay counted, so that asking anew ends.
        """
        trip = self._said.get("trip") or {}
        start = {
            "from_page": bool(trip.get("from_page")),
            "redirects": int(trip.get("redirects", 0)) if counted else 0,
        }
        return {**self._said, "url": "", "trip": start}

    def _fetched(self) -> Done | Snoozed:
        trip = Trip.of_context(self._work.inputs["host_key"], self._said.get("trip") or {})
        by_page = trip.from_page
        asked = Asked(self._url, self._address.landing, self._earlier())
        found = fetch(asked, files.scratch(), _options(), http_client(), self._work.signal, trip)
        match found:
            case Elsewhere():
                return self._elsewhere(found, by_page=found.trip.from_page and not by_page)
            case Unchanged():
                return self._done("unchanged", "")
            case Fetched():
                return self._done("kept", found.note, **self._columns(found))

    def _earlier(self) -> EarlierCopy:
        if not self._here or self._said.get("moved"):
            return EarlierCopy()
        return EarlierCopy(self._document.etag, self._document.last_modified)

    def _columns(self, fetched: Fetched) -> dict[str, Any]:
        return {
            **_kept(self._work, fetched),
            "fetched_from": shown(fetched.final_url),
            "etag": fetched.etag if len(fetched.etag) <= 255 else "",
            "last_modified": fetched.last_modified if len(fetched.last_modified) <= 64 else "",
        }

    def _done(self, outcome: str, message: str, **columns: Any) -> Done:
        context: dict[str, Any] = {"fetch": {}} if self._said else {}
        if outcome in WELL and self._document.other_urls:
            columns["other_urls"] = [a.as_json() for a in untried(self._document.other_urls)]
        return done(self._document, context, **columns, lookups=self._noted(outcome, message))

    def _noted(self, outcome: str, message: str) -> list[Any]:
        """The lookups with one more line, of this address."""
        now = timezone.now()
        return [
            *self._document.lookups,
            line(self._address, outcome, message, now, self._round if outcome not in WELL else ""),
        ]

    def _elsewhere(self, away: Elsewhere, *, by_page: bool) -> Snoozed:
        """Go on at another host, under its limit: where a redirect leads, or the PDF a page names."""
        host = key_of_host(away.url)
        said = {**self._said, "trip": away.trip.as_context()}
        if not by_page:
            said |= {
                "url": away.url,
                "until": time.time() + REDIRECT_LASTS,
                "failed": len(self._failures),
                "round": self._round,
            }
            return Snoozed(0, f"redirected to {host}", {"host_key": host, "fetch": said})
        reason = f"its page names a PDF at {host}"
        columns = {"pdf_url": away.url, "lookups": self._noted("page", reason)}
        said |= {"url": "", "moved": True}
        return self._snoozed(reason, columns, {"host_key": host, "landing": False, "fetch": said})

    def _onward(self, kind: str, message: str, heard: Failed | None = None) -> Snoozed:
        """Go on with the next address, under its host's limit; this one's hears `heard`.

        An address that failed is kept behind those still to be tried, for a person's retry.
        """
        following = self._others[0]
        host = key_of_host(following.url)
        rest = without(self._document.other_urls, following.url)
        failed = replace(self._address, tried=self._round)
        columns = {
            "pdf_url": following.url,
            "other_urls": [address.as_json() for address in (*rest, failed)],
            "lookups": self._noted(kind, message),
        }
        said = {"failures": len(self._failures), "moved": True}
        context = {"host_key": host, "landing": following.landing, "fetch": said}
        return self._snoozed(f"{kind}; goes on at {host}", columns, context, heard)

    def _snoozed(
        self,
        reason: str,
        columns: dict[str, Any],
        context: dict[str, Any],
        heard: Failed | None = None,
    ) -> Snoozed:
        return Snoozed(0, reason, context, lambda: store(self._document.pk, columns), heard)

    def _failed(self, failure: StepFailed) -> Done | Snoozed:
        """What a failure at this address means: another one, our copy as it was, or the failure."""
        if self._has_run_out(failure):
            return self._asked_anew(failure)
        if failure.kind in OUR_OWN or not (self._shuts_out(failure) or self._is_for_good(failure)):
            raise failure
        if self._others:
            return self._onward(failure.kind, failure.message, _heard(failure))
        if self._here:
            kept = self._done(failure.kind, f"the copy we have is kept; {failure.message}")
            return replace(kept, service=_heard(failure))
        raise self._naming_all(failure)

    def _has_run_out(self, failure: StepFailed) -> bool:
        """Whether a redirect is refused that is old, or that was followed before."""
        if failure.http_status not in RUN_OUT or failure.kind == "rate_limited":
            return False
        known = bool(self._said.get("url"))
        return known and (self._is_old() or len(self._failures) > int(self._said.get("failed", 0)))

    def _asked_anew(self, failure: StepFailed) -> Snoozed:
        host = key_of_host(self._document.pdf_url)
        reason = f"a redirect of {host} ran out; it is asked for anew"
        context = {"host_key": host, "fetch": self._without_redirect()}
        return Snoozed(0, reason, context, service=_heard(failure))

    def _shuts_out(self, failure: StepFailed) -> bool:
        """Whether its host is to be left alone for long, and there is another to ask meanwhile."""
        return (failure.retry_after or 0) > LONG_WAIT and bool(self._others)

    def _is_for_good(self, failure: StepFailed) -> bool:
        allowed = retry_policies.policy_for(failure.kind, self._work.grant.phase).max_attempts
        return len(self._failures) + 1 >= allowed

    def _naming_all(self, last: StepFailed) -> StepFailed:
        before = failed_in(self._document.lookups, self._round) if self._document.lookups else ""
        if not before:
            return last
        message = f"{last.message}; tried before it: {before}"
        return StepFailed(
            last.kind, message, retry_after=last.retry_after, http_status=last.http_status,
            limit=last.limit,
        )  # fmt: skip

    @cached_property
    def _others(self) -> list[Address]:
        """The addresses left, without those that are no URL of a host."""
        document = self._document
        if not document.other_urls:
            return []
        found = left(document.other_urls, document.pdf_url, self._round)
        return [address for address in found if _has_host(address.url)]

    @cached_property
    def _round(self) -> str:
        """Since when the tries of this execution count."""
        return str(self._execution.attempts_counted_since.isoformat())

    @cached_property
    def _execution(self) -> Execution:
        return Execution.objects.only("attempts_counted_since").get(
            pk=self._work.grant.execution_id
        )

    @cached_property
    def _failures(self) -> list[tuple[str, str]]:
        """Kind and message of each failure of this step since then."""
        tries = Attempt.objects.filter(
            execution=self._execution,
            phase=self._work.grant.phase,
            step=self._work.grant.step,
            outcome__in=(Outcome.RETRIED, Outcome.FAILED),
            leased_at__gte=self._execution.attempts_counted_since,
        )
        return list(tries.order_by("pk").values_list("error_kind", "error_message"))


def _heard(failure: StepFailed) -> Failed:
    """What the limit of the host hears of a failure that does not end this step's work."""
    return Failed(failure.kind, failure.message, failure.retry_after, limit=failure.limit)


def _has_host(url: str) -> bool:
    try:
        return bool(key_of_host(url))
    except StepFailed:
        return False
