"""What a browser may load and run on our pages: ours alone, and nothing written into the page.

Django brings this with 6.0; until then, a header. The theme's Alpine evaluates the expressions in its
templates' attributes, so `unsafe-eval` is needed; text of strangers is escaped before it could get into
one. Pages that state a policy of their own (a document's files) keep it.
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

Answer = Callable[[HttpRequest], HttpResponseBase]


def content_policy(answer: Answer) -> Answer:
    """Middleware: give every response the policy it has none of."""

    def with_policy(request: HttpRequest) -> HttpResponseBase:
        response = answer(request)
        response.headers.setdefault(HEADER, POLICY)
        return response

    return with_policy
