"""`/metrics`: for holders of the token, or for this machine where the settings say so."""

from __future__ import annotations

from hmac import compare_digest
from ipaddress import ip_address

from django.db import Error as DatabaseError
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from queuemgr.base.config import observability_settings
from queuemgr.web.metrics.collector import DatabaseCollector

FORWARDED = ("X-Forwarded-For", "Forwarded", "X-Real-IP")
"""Headers added by proxies; with one, the remote address is the proxy's. A proxy that adds none looks like
this machine: without a token nobody is answered unless the settings say that there is no such proxy."""


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """All metrics in the negotiated format. 401 without the token, 403 if none is set and this is not the
    machine that needs none, 404 if metrics are off, 503 if the database does not answer."""
    refusal = _refusal(request)
    if refusal is not None:
        return refusal
    registry = CollectorRegistry(auto_describe=False)
    registry.register(DatabaseCollector())
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    try:
        body = encode(registry)
    except DatabaseError:
        return _text("the database does not answer", 503)
    return HttpResponse(body, content_type=content_type, headers={"Cache-Control": "no-store"})


def _refusal(request: HttpRequest) -> HttpResponse | None:
    config = observability_settings()
    if not config.metrics:
        raise Http404
    token = config.metrics_token.get_secret_value()
    if token:
        given = request.headers.get("Authorization", "")
        if compare_digest(given.encode(), f"Bearer {token}".encode()):
            return None
        refused = _text("send the token in SLUICE_METRICS_TOKEN as a bearer token", 401)
        refused["WWW-Authenticate"] = 'Bearer realm="metrics"'
        return refused
    if config.metrics_without_token and _is_this_machine(request):
        return None
    return _text(CLOSED, 403)


CLOSED = (
    "set SLUICE_METRICS_TOKEN and send it as a bearer token, or set SLUICE_METRICS_WITHOUT_TOKEN=on to read "
    "metrics from the machine of the web service, if no proxy on it forwards to it"
)


def _is_this_machine(request: HttpRequest) -> bool:
    """Does the connection come from this machine, and not through a proxy on it?"""
    if any(name in request.headers for name in FORWARDED):
        return False
    try:
        return ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


def _text(text: str, status: int) -> HttpResponse:
    return HttpResponse(f"{text}\n", status=status, content_type="text/plain; charset=utf-8")
