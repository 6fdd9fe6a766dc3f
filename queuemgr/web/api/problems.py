"""Errors as problem details (RFC 9457): `application/problem+json`, one type per cause.

A type is an anchor in docs/api.md. No problem contains a secret, a payload or a traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation, ValidationError
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError
from ninja.errors import ValidationError as InvalidRequest

from queuemgr.base.errors import IllegalMove, NeverFits, QueueFull, SluiceError
from queuemgr.base.redaction import clean
from queuemgr.operations.limit_names import UnknownLimit

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
PAGE = "docs/api.md"

TITLES: Mapping[str, tuple[int, str]] = {
    "unreadable": (400, "The request cannot be read"),
    "no-valid-token": (401, "No valid token"),
    "scope-missing": (403, "The token lacks a scope"),
    "permission-missing": (403, "The owner lacks a permission"),
    "csrf-failed": (403, "The session's CSRF token is missing or wrong"),
    "not-found": (404, "Not found"),
    "method-not-allowed": (405, "The method is not allowed here"),
    "conflict": (409, "Not allowed in its state"),
    "too-large": (413, "The body is too large"),
    "not-json": (415, "The body is not JSON"),
    "invalid": (422, "The input is invalid"),
    "never-fits": (422, "A limit could never admit it"),
    "key-reused": (422, "The idempotency key belongs to another request"),
    "queue-full": (429, "The queue is full"),
    "too-many-requests": (429, "Too many requests"),
    "internal": (500, "Internal error"),
    "database-away": (503, "The database does not answer"),
}
"""Every type of problem: its status and title."""


class Problem(Exception):
    """Raised to answer a request with a problem; `members` are further members of its JSON object."""

    def __init__(
        self, name: str, detail: str, *, headers: Mapping[str, str] | None = None, **members: Any
    ) -> None:
        super().__init__(detail)
        self.name, self.detail, self.headers = name, detail, dict(headers or {})
        self.members = members

    @property
    def status(self) -> int:
        return TITLES[self.name][0]


def problem_response(request: HttpRequest, problem: Problem) -> HttpResponse:
    """The problem as a response."""
    body = {
        "type": f"{PAGE}#{problem.name}",
        "title": TITLES[problem.name][1],
        "status": problem.status,
        "detail": problem.detail,
        "instance": request.path,
        **problem.members,
    }
    headers = {"Cache-Control": "no-store", **problem.headers}
    return JsonResponse(body, status=problem.status, content_type=MEDIA_TYPE, headers=headers)


NOT_FOUND = "no route has this path; docs/api.md and openapi.json list them"
INTERNAL = "the server's log has the error; the request had no partial effect"

ERROR_PAGES = {
    400: ("unreadable", ""),
    404: ("not-found", NOT_FOUND),
    405: ("method-not-allowed", "the header Allow names the methods of this path"),
    500: ("internal", INTERNAL),
}
"""Name and detail of the problem for each error response that no route makes, such as Django's 404 page."""


def _of_queue_full(full: QueueFull) -> Problem:
    return Problem(
        "queue-full", str(full), headers={"Retry-After": "30"},
        queue=full.queue, depth=full.depth, cap=full.cap, new=full.new, already=full.already,
    )  # fmt: skip


def _of_invalid(error: InvalidRequest) -> Problem:
    errors = [
        {"where": ".".join(map(str, found["loc"])), "what": str(found["msg"])[:500]}
        for found in error.errors[:50]
    ]
    detail = "; ".join(f"{e['where']}: {e['what']}" for e in errors[:5])
    return Problem("invalid", clean(detail), errors=errors)


def _of_http_error(error: HttpError) -> Problem:
    """Ninja wraps what our parser raises in an error of its own."""
    cause = error.__cause__
    return problem_of(cause) if isinstance(cause, Exception) else Problem("unreadable", error.message)


def no_token(detail: str, error: str = "") -> Problem:
    """401, with the error code of RFC 6750 if a token was sent."""
    challenge = 'Bearer realm="sluicegate"' + (f', error="{error}"' if error else "")
    return Problem("no-valid-token", detail, headers={"WWW-Authenticate": challenge})


RETRY_LATER = {"Retry-After": "5"}
HOW_TO_AUTHENTICATE = "send `Authorization: Bearer TOKEN`; `manage.py queue token create` makes one"

_CONVERTERS: Mapping[type[Exception], Callable[[Any], Problem]] = {
    Problem: lambda problem: problem,
    AuthenticationError: lambda error: no_token(HOW_TO_AUTHENTICATE),
    InvalidRequest: _of_invalid,
    HttpError: _of_http_error,
    Http404: lambda error: Problem("not-found", clean(str(error)) or NOT_FOUND),
    ValidationError: lambda error: Problem("invalid", clean("; ".join(error.messages))),
    QueueFull: _of_queue_full,
    NeverFits: lambda error: Problem("never-fits", clean(str(error))),
    IllegalMove: lambda error: Problem("conflict", clean(str(error))),
    UnknownLimit: lambda error: Problem("invalid", clean(f'{error}; "new": true makes it all the same')),
    SluiceError: lambda error: Problem("invalid", clean(str(error))),
    PermissionDenied: lambda error: Problem("permission-missing", clean(str(error))),
    RequestDataTooBig: lambda error: Problem("too-large", "split the request"),
    SuspiciousOperation: lambda error: Problem("unreadable", "the request is malformed"),
    OperationalError: lambda error: Problem("database-away", "try again", headers=RETRY_LATER),
    InterfaceError: lambda error: Problem("database-away", "try again", headers=RETRY_LATER),
}


def problem_of(error: Exception) -> Problem:
    """The problem for an error; an unexpected one is `internal`, and only the log has its message."""
    for kind in type(error).__mro__:
        if kind in _CONVERTERS:
            return _CONVERTERS[kind](error)
    return Problem("internal", INTERNAL)


def _handle(request: HttpRequest, error: Any) -> HttpResponse:
    problem = problem_of(error)
    if problem.status >= 500:
        logger.error("%s %s failed", request.method, request.path, exc_info=error)
    return problem_response(request, problem)


def register(api: NinjaAPI) -> None:
    """Answer every error of the routes with a problem, in place of ninja's own handlers."""
    kinds: tuple[type[Exception], ...] = (Exception, *_CONVERTERS)
    for kind in kinds:
        api.add_exception_handler(kind, _handle)
