"""The content security policy of our pages: load local files only, run no text of a page, be in no frame.

Django has a policy built in from 6.0. Responses that set a policy of their own (a document's files) keep it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

POLICY = "Content-Security-Policy"
SOURCES = (
    "default-src 'none'",
    "script-src 'self'",
    # Widths of bars are in attributes of style; a style sheet in a page needs this response's nonce.
    "style-src 'self' 'nonce-{nonce}'",
    "style-src-attr 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
)
FEATURES = (
    "accelerometer", "browsing-topics", "camera", "display-capture", "geolocation", "gyroscope", "hid",
    "magnetometer", "microphone", "midi", "payment", "publickey-credentials-get", "screen-wake-lock",
    "serial", "usb", "xr-spatial-tracking",
)  # fmt: skip
"""What of a browser no page of ours uses; so nothing on one may ask for it."""

HEADERS = {
    "Permissions-Policy": ", ".join(f"{feature}=()" for feature in FEATURES),
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Beside those of Django's security middleware: nosniff, same-origin referrers and opener."""

GetResponse = Callable[[HttpRequest], HttpResponseBase]


def content_policy(get_response: GetResponse) -> GetResponse:
    """Middleware that adds the policy to responses without one; templates have `request.csp_nonce`."""

    def respond(request: HttpRequest) -> HttpResponseBase:
        nonce = secrets.token_urlsafe(16)
        request.csp_nonce = nonce  # type: ignore[attr-defined]  # for templates
        response = get_response(request)
        response.headers.setdefault(POLICY, "; ".join(SOURCES).format(nonce=nonce))
        for header, value in HEADERS.items():
            response.headers.setdefault(header, value)
        return response

    return respond
