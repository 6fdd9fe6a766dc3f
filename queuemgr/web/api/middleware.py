"""Middleware of the API: every error is a problem (RFC 9457), and HEAD is answered wherever GET is."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBase

from queuemgr.web.api import problems

PREFIX = "/api/"
KEPT = ("Allow", "WWW-Authenticate", "Retry-After")
"""Headers of an error page that its problem keeps."""

GetResponse = Callable[[HttpRequest], HttpResponseBase]


def api_responses(get_response: GetResponse) -> GetResponse:
    def respond(request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(PREFIX):
            return get_response(request)
        is_head = request.method == "HEAD"
        if is_head:
            request.method = "GET"  # ninja's routes know only the methods they name
        response = _as_problem(request, get_response(request))
        if response.get("Allow") == "GET":
            response["Allow"] = "GET, HEAD"
        if is_head:
            request.method = "HEAD"
            if isinstance(response, HttpResponse):
                response.content = b""  # Content-Length is set already
        return response

    return respond


def _as_problem(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """A problem in place of Django's own error pages: unknown path, method or host."""
    if response.status_code < 400 or response.get("Content-Type") == problems.MEDIA_TYPE:
        return response
    headers = {name: response[name] for name in KEPT if name in response}
    return problems.of_status(request, response.status_code, headers)
