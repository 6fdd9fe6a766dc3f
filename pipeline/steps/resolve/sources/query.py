"""Ask one source about one paper: the request, and what its response or failure means."""

from __future__ import annotations

import time
from dataclasses import replace
from urllib.parse import urlencode

import httpx

from pipeline.steps.http.client import HttpClient
from pipeline.steps.http.safe_addresses import name_and_port
from pipeline.steps.http.shown import shown
from pipeline.steps.identify import Identifier
from pipeline.steps.resolve.sources.answer import Answer, Outcome
from pipeline.steps.resolve.sources.lookup_log import Inquiry
from pipeline.steps.resolve.sources.request import get
from pipeline.steps.resolve.sources.source import ResolveOptions, Source
from queuemgr import AbortSignal, StepFailed

LookupResult = tuple[Inquiry, Answer | None]

_NOT_KNOWN = Answer(Outcome.NOT_KNOWN)


def query_source(
    source: Source,
    identifier: Identifier,
    options: ResolveOptions,
    http: HttpClient,
    signal: AbortSignal,
    moved_to: str = "",
) -> LookupResult:
    """Ask this source in one request, at the path it redirected to (`moved_to`), if any.

    Failures are part of the result; raises Aborted only.
    """
    began = time.monotonic()
    try:
        inquiry, answer = _asked(source, identifier, options, http, signal, moved_to)
    except StepFailed as failure:
        inquiry, answer = _failed(source, failure)
    return replace(inquiry, seconds=round(time.monotonic() - began, 3)), answer


def _asked(
    source: Source,
    identifier: Identifier,
    options: ResolveOptions,
    http: HttpClient,
    signal: AbortSignal,
    moved_to: str,
) -> LookupResult:
    url = url_of(source, identifier, options, moved_to)
    reply = get(url, dict(source.headers(options)), options.deadline, http, signal)
    if reply.moved_to:
        return Inquiry.moved(source, _path(url, reply.moved_to)), None
    answer = source.read(reply.body, identifier)
    return Inquiry.answered(source, answer), answer


def url_of(source: Source, identifier: Identifier, options: ResolveOptions, moved_to: str = "") -> str:
    """The URL to request; `moved_to` replaces the usual path."""
    base = httpx.URL(options.base_url(source.name))
    query = urlencode(source.query(identifier, options))
    if moved_to:
        origin = f"{base.scheme}://{base.netloc.decode('ascii')}"
        url = f"{origin}{moved_to}"
    else:
        url = f"{options.base_url(source.name)}{source.path(identifier)}"
    return f"{url}?{query}" if query else url


def _path(requested: str, moved_to: str) -> str:
    """The path redirected to. Its query is dropped: ours is sent again, and it may repeat our key.

    Raises StepFailed("refused_address") if it is on another host: the operator did not choose that
    one, and our limit does not cover it.
    """
    old, new = httpx.URL(requested), httpx.URL(moved_to)
    if (old.scheme, name_and_port(old)) != (new.scheme, name_and_port(new)):
        raise StepFailed(
            "refused_address",
            f"{shown(str(old))} redirects to {shown(str(new))}: set the service's base URL to its new host",
        )
    return new.raw_path.partition(b"?")[0].decode("ascii")


def _failed(source: Source, failure: StepFailed) -> LookupResult:
    """A 404 is an answer: this source does not know the paper."""
    if failure.kind == "not_found":
        return Inquiry.answered(source, _NOT_KNOWN), _NOT_KNOWN
    return Inquiry.failed(source, source.interpret(failure)), None
