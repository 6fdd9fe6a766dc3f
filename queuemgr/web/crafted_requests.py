"""Admin requests that nobody makes by clicking end as 400 or 404 before any page sees them.

Our own pages ask `refuse` themselves; the middleware does it for every page of the project's admin.

Django hands the ids of chosen rows, and the values of filters, to the database as they come. PostgreSQL takes
no NUL in text, SQLite looks for no long one, and neither database takes a number of more than 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import SuspiciousOperation, ValidationError
from django.db.models import Field
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.views.defaults import bad_request

from queuemgr.base.queue_database import connection

NUL = "\x00"

LONGEST_QUERY = 20_000
"""Characters of an address. SQLite refuses to look for a text of 50,000; most servers of HTTP allow 8,000."""


class CraftedRequests:
    """Raises `SuspiciousOperation` (400) for a NUL in the address, `Http404` for an impossible row."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """SQLite's driver refuses a number of more than 64 bits, whichever filter it came in."""
        if isinstance(error, OverflowError) and _is_for_the_admin(request):
            return bad_request(request, error)
        return None

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> None:
        if _is_for_the_admin(request):
            refuse(request, getattr(view, "model_admin", None))


def refuse(request: HttpRequest, model_admin: Any) -> None:
    """Raise for a request that nobody makes by clicking; `model_admin`: the page it is for, if any."""
    if NUL in request.path_info or any(
        NUL in text for name in request.GET for text in _values(request, name)
    ):
        raise SuspiciousOperation("a NUL character in the address")
    if len(request.META.get("QUERY_STRING", "")) > LONGEST_QUERY:
        raise SuspiciousOperation("a query of more than 20,000 characters in the address")
    if request.method == "POST" and model_admin is not None:
        for chosen in request.POST.getlist(ACTION_CHECKBOX_NAME):
            check_id(model_admin.opts.pk, chosen)


def _is_for_the_admin(request: HttpRequest) -> bool:
    match = request.resolver_match
    return match is not None and "admin" in match.namespaces


def _values(request: HttpRequest, name: str) -> list[str]:
    return [name, *map(str, request.GET.getlist(name))]


def check_id(key: Field[Any, Any], text: str) -> None:
    """Raise `Http404` for what cannot be the primary key of a row."""
    try:
        value = key.to_python(text)
    except (ValidationError, ValueError):
        raise Http404(f"no row has the id {text[:60]!a}") from None
    if NUL in text:
        raise Http404("no row has a NUL character in its id")
    if isinstance(value, int):
        least, most = connection.ops.integer_field_range(key.get_internal_type())
        if not (least or -(2**63)) <= value <= (most or 2**63 - 1):
            raise Http404(f"no row has the id {text[:60]!a}")
