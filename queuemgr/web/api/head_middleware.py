"""HEAD answered wherever GET is (RFC 9110, section 9.3.2); ninja's routes know only what they name."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBase

PREFIX = "/api/v1/"
"""Where GET changes nothing."""


class HeadLikeGet:
    """Middleware: within the API a HEAD is routed, allowed and answered as the GET it stands for."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(PREFIX):
            return self.get_response(request)
        response = self._as_get(request) if request.method == "HEAD" else self.get_response(request)
        if response.get("Allow") == "GET":
            response["Allow"] = "GET, HEAD"
        return response

    def _as_get(self, request: HttpRequest) -> HttpResponseBase:
        request.method = "GET"
        response = self.get_response(request)
        request.method = "HEAD"
        if isinstance(response, HttpResponse):
            response.content = b""  # its length is told already, as it would be to a GET
        return response
