"""Lists that refresh where they are read: the page asks every few seconds, by the address of the list itself.

Where nothing that the list shows has changed, the answer is 304: the rows were read, but the page, which
costs several times as much, is not made.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import parse_etags

from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.time_text import moment_text

SECONDS = 5


@dataclass(frozen=True)
class Live:
    """What the page says of its list: when it was read, how often it is read again, and its state."""

    at: datetime
    etag: str
    seconds: int = SECONDS


def answer(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """The list, with what its script needs; or that it is as the page that asks has it."""
    context = getattr(response, "context_data", None) or {}
    if "cl" not in context or context.get("is_popup"):
        return response
    live = context["live"] = Live(database_now(), _etag(context["cl"].shown()))
    known = parse_etags(request.headers.get("If-None-Match", ""))
    if live.etag in (tag.removeprefix("W/") for tag in known):
        response = HttpResponseNotModified()
    if request.headers.get("X-Requested-With") == "fetch":
        context["messages"] = ()  # those that wait are for the next page that somebody opens
    response["ETag"], response["X-As-Of"] = live.etag, moment_text(live.at)
    return response


def _etag(shown: Any) -> str:
    digest = blake2b("\x00".join(shown).encode(errors="surrogatepass"), digest_size=16)
    return f'"{digest.hexdigest()}"'
