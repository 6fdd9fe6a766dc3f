"""What Django itself answers below /api/, told as a problem too: no such path, method, host."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from queuemgr.web.api import problems

PREFIX = "/api/"
KEPT = ("Allow", "WWW-Authenticate", "Retry-After")


class ProblemsOnly:
    """Middleware: an error below the API's prefix is never a page for people."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if response.status_code < 400 or not request.path_info.startswith(PREFIX):
            return response
        if response.get("Content-Type") == problems.MEDIA_TYPE:
            return response
        headers = {name: response[name] for name in KEPT if name in response}
        return problems.plain(request, response.status_code, headers)
