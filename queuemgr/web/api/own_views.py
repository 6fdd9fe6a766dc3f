"""Views of an application that admit whom the API admits."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from queuemgr.web.api.auth import Bearer, Session
from queuemgr.web.api.problems import HOW_TO_AUTHENTICATE, Problem, no_token, problem_response

View = Callable[..., HttpResponseBase]


def allowed(scope: str, permission: str) -> Callable[[View], View]:
    """Admit a session or a token with this scope, of a user with this permission (`app.codename`)."""
    ways = (Session(scope, permission), Bearer(scope, permission))

    def decorated(view: View) -> View:
        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                if not any(way(request) for way in ways):
                    raise no_token(HOW_TO_AUTHENTICATE)
            except Problem as problem:
                return problem_response(request, problem)
            return view(request, *args, **kwargs)

        return checked

    return decorated
