"""Middleware of the API: every error is a problem (RFC 9457), and HEAD is answered wherever GET is."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import NoReverseMatch, reverse

from queuemgr.web.api import problems

GetResponse = Callable[[HttpRequest], HttpResponseBase]


def api_responses(get_response: GetResponse) -> GetResponse:
    def respond(request: HttpRequest) -> HttpResponseBase:
        if not request.path.startswith(_prefix()):
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


def _prefix() -> str:
    """Where the project has the API, such as `/api/`, so that addresses of later versions are its own."""
    try:
        return reverse("api-v1:api-root").removesuffix("v1/")
    except NoReverseMatch:
        return "/api/"


def _as_problem(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """A problem in place of Django's own error pages: unknown path, method or host."""
    known = problems.ERROR_PAGES.get(response.status_code)
    if known is None or response.get("Content-Type") == problems.MEDIA_TYPE:
        return response
    headers = {"Allow": response["Allow"]} if "Allow" in response else {}
    return problems.problem_response(request, problems.Problem(*known, headers=headers))
