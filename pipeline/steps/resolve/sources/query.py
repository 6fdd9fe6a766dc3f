"""One question to one source: the request, and what its answer, or the lack of one, means."""

from __future__ import annotations

import time
from dataclasses import replace
from urllib.parse import urlencode

import httpx

from pipeline.steps.http.client import HttpClient
from pipeline.steps.http.safe_addresses import name_and_port, shown
from pipeline.steps.identify import Identifier
from pipeline.steps.resolve.sources.answer import Answer, Outcome
from pipeline.steps.resolve.sources.lookup_log import Inquiry
from pipeline.steps.resolve.sources.request import ask
from pipeline.steps.resolve.sources.source import ResolveOptions, Source
from queuemgr import AbortSignal, StepFailed

Heard = tuple[Inquiry, Answer | None]

_NOT_KNOWN = Answer(Outcome.NOT_KNOWN)


def put(
    source: Source,
    identifier: Identifier,
    options: ResolveOptions,
    http: HttpClient,
    signal: AbortSignal,
    moved_to: str = "",
) -> Heard:
    """Ask this source in one request, at the path it `moved_to` if it said so.

    Whatever goes wrong is part of what is heard; raises Aborted only.
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
) -> Heard:
    url = url_of(source, identifier, options, moved_to)
    reply = ask(url, dict(source.headers(options)), options.deadline, http, signal)
    if reply.moved_to:
        return Inquiry.moved(source, _path(url, reply.moved_to)), None
    answer = source.read(reply.body, identifier)
    return Inquiry.answered(source, answer), answer


def url_of(
    source: Source, identifier: Identifier, options: ResolveOptions, moved_to: str = ""
) -> str:
    """What is asked for; a path the source gave stands in place of ours."""
    base = httpx.URL(options.base_url(source.name))
    query = urlencode(source.query(identifier, options))
    if moved_to:
        origin = f"{base.scheme}://{base.netloc.decode('ascii')}"
        place = f"{origin}{moved_to}"
    else:
        place = f"{options.base_url(source.name)}{source.path(identifier)}"
    return f"{place}?{query}" if query else place


def _path(asked: str, moved_to: str) -> str:
    """The path of the new place. Its query may repeat our address or key, and ours is sent anyway.

    Raises StepFailed("refused_address") when it is at another host: that is not the one the operator
    chose, and has not our limit.
    """
    old, new = httpx.URL(asked), httpx.URL(moved_to)
    if (old.scheme, name_and_port(old)) != (new.scheme, name_and_port(new)):
        raise StepFailed(
            "refused_address",
            f"{shown(old)} redirects to {shown(new)}: set the base URL of the service to where it is",
        )
    return new.raw_path.partition(b"?")[0].decode("ascii")


def _failed(source: Source, failure: StepFailed) -> Heard:
    """A 404 is an answer: this source does not know the paper."""
    if failure.kind == "not_found":
        return Inquiry.answered(source, _NOT_KNOWN), _NOT_KNOWN
    return Inquiry.failed(source, source.understood(failure)), None
