"""The Content-Security-Policy of our pages: local resources only, and no inline scripts.

Django has this built in from 6.0. The theme's Alpine evaluates expressions in template attributes, which
needs `unsafe-eval`; values are escaped, so none can become an expression. Responses that set a policy of
their own (a document's files) keep it.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADER = "Content-Security-Policy"

GetResponse = Callable[[HttpRequest], HttpResponseBase]


def content_policy(get_response: GetResponse) -> GetResponse:
    """Middleware that adds the policy to responses without one."""

    def respond(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        response.headers.setdefault(HEADER, POLICY)
        return response

    return respond
