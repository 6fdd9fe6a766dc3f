"""What goes wrong, told as RFC 9457 wants it: `application/problem+json`, one type per cause.

A type is an anchor of docs/api.md. Nothing here repeats a secret, a payload or a traceback.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import (
    PermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
    ValidationError,
)
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError
from ninja.errors import ValidationError as InvalidRequest

from queuemgr.base.errors import IllegalMove, NeverFits, QueueFull, SluiceError
from queuemgr.base.redaction import clean

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
PAGE = "docs/api.md"

TITLES: Mapping[str, tuple[int, str]] = {
    "unreadable": (400, "The request cannot be read"),
    "no-valid-token": (401, "No valid token"),
    "scope-missing": (403, "The token lacks a scope"),
    "permission-missing": (403, "The owner lacks a permission"),
    "csrf-failed": (403, "The session's CSRF token is missing or wrong"),
    "not-found": (404, "There is no such thing"),
    "method-not-allowed": (405, "The method is not allowed here"),
    "conflict": (409, "Its state does not allow it"),
    "too-large": (413, "The body is too large"),
    "not-json": (415, "The body is not JSON"),
    "invalid": (422, "What was given cannot be used"),
    "never-fits": (422, "No limit could ever admit it"),
    "key-reused": (422, "The idempotency key belongs to another request"),
    "queue-full": (429, "The queue is full"),
    "too-many-requests": (429, "Too many requests"),
    "internal": (500, "Something broke on our side"),
    "database-away": (503, "The database does not answer"),
}
"""Every type of problem: its status and title."""


class Problem(Exception):
    """A request that cannot be answered as asked; `more` become members of the problem."""

    def __init__(
        self, name: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.name, self.detail, self.headers, self.more = name, detail, dict(headers or {}), more

    @property
    def status(self) -> int:
        return TITLES[self.name][0]


def answer(request: HttpRequest, problem: Problem) -> HttpResponse:
    """The problem as a response."""
    return respond(
        {
            "type": f"{PAGE}#{problem.name}",
            "title": TITLES[problem.name][1],
            "status": problem.status,
            "detail": problem.detail,
            "instance": request.path,
            **problem.more,
        },
        problem.headers,
    )


def respond(body: dict[str, Any], headers: Mapping[str, str]) -> HttpResponse:
    response = HttpResponse(json.dumps(body), status=body["status"], content_type=MEDIA_TYPE)
    response["Cache-Control"] = "no-store"
    for name, value in headers.items():
        response[name] = value
    return response


def plain(request: HttpRequest, status: int, headers: Mapping[str, str]) -> HttpResponse:
    """A problem for an answer that came from outside the routes: its status says it all."""
    found = next((name for name, (code, _) in TITLES.items() if code == status), None)
    if found is not None:
        return answer(request, Problem(found, DETAILS.get(found, ""), headers=headers))
    title = HTTPStatus(status).phrase
    body = {"type": "about:blank", "title": title, "status": status, "instance": request.path}
    return respond(body, headers)


DETAILS = {
    "not-found": "no route has this path; docs/api.md and openapi.json list them",
    "method-not-allowed": "the header Allow names the methods of this path",
    "internal": "the log of the server says what; nothing of the request took effect halfway",
}


def of_queue_full(full: QueueFull) -> Problem:
    return Problem(
        "queue-full", str(full), headers={"Retry-After": "30"},
        queue=full.queue, depth=full.depth, cap=full.cap, new=full.new, already=full.already,
    )  # fmt: skip


def _of_invalid(error: InvalidRequest) -> Problem:
    errors = [
        {"where": ".".join(map(str, found["loc"])), "what": str(found["msg"])[:500]}
        for found in error.errors[:50]
    ]
    said = "; ".join(f"{e['where']}: {e['what']}" for e in errors[:5])
    return Problem("invalid", clean(said), errors=errors)


def _of_http_error(error: HttpError) -> Problem:
    """Ninja's own: the one of the parser hides ours behind it."""
    if isinstance(error.__cause__, Problem):
        return error.__cause__
    if isinstance(error.__cause__, Exception):
        return problem_of(error.__cause__)
    return Problem("unreadable", error.message)


def _of_validation(error: ValidationError) -> Problem:
    return Problem("invalid", clean("; ".join(error.messages)))


def no_token(detail: str, error: str = "") -> Problem:
    """RFC 6750 names the error only where a token was given."""
    challenge = 'Bearer realm="sluicegate"' + (f', error="{error}"' if error else "")
    return Problem("no-valid-token", detail, headers={"WWW-Authenticate": challenge})


AGAIN = {"Retry-After": "5"}
HOW_TO_ASK = "say `Authorization: Bearer TOKEN`; `manage.py queue token create` makes one"

_MADE_OF: Mapping[type[Exception], Callable[[Any], Problem]] = {
    Problem: lambda problem: problem,
    AuthenticationError: lambda error: no_token(HOW_TO_ASK),
    InvalidRequest: _of_invalid,
    HttpError: _of_http_error,
    Http404: lambda error: Problem("not-found", clean(str(error)) or DETAILS["not-found"]),
    ValidationError: _of_validation,
    QueueFull: of_queue_full,
    NeverFits: lambda error: Problem("never-fits", clean(str(error))),
    IllegalMove: lambda error: Problem("conflict", clean(str(error))),
    SluiceError: lambda error: Problem("invalid", clean(str(error))),
    PermissionDenied: lambda error: Problem("permission-missing", clean(str(error))),
    RequestDataTooBig: lambda error: Problem("too-large", "send less at a time"),
    SuspiciousOperation: lambda error: Problem("unreadable", "the request looks tampered with"),
    OperationalError: lambda error: Problem("database-away", "try again", headers=AGAIN),
    InterfaceError: lambda error: Problem("database-away", "try again", headers=AGAIN),
}


def problem_of(error: Exception) -> Problem:
    """What to tell of an error; of one nobody foresaw nothing but that it is in the log."""
    for kind in type(error).__mro__:
        if kind in _MADE_OF:
            return _MADE_OF[kind](error)
    return Problem("internal", DETAILS["internal"])


def _handle(request: HttpRequest, error: Any) -> HttpResponse:
    problem = problem_of(error)
    if problem.status >= 500:
        logger.error("%s %s failed", request.method, request.path, exc_info=error)
    return answer(request, problem)


def register(api: NinjaAPI) -> None:
    """Have every error of the routes told as a problem. Ninja has handlers of its own for some."""
    kinds: tuple[type[Exception], ...] = (Exception, *_MADE_OF)
    for kind in kinds:
        api.add_exception_handler(kind, _handle)
