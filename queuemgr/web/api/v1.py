"""Version 1 of the API: its routes, and their OpenAPI schema with problems, permissions and a docs page."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.apps import apps
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotFound
from django.shortcuts import render
from django.utils.decorators import method_decorator
from ninja import NinjaAPI
from ninja.openapi.docs import Swagger
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from queuemgr.operations import user_model
from queuemgr.web import links
from queuemgr.web.api import (
    batches,
    bulk,
    costs,
    dry_run,
    enqueue,
    execution_actions,
    execution_by_key,
    executions,
    limits,
    problems,
    queues,
    schedules,
    search,
    webhooks,
    what_if,
    workers,
)
from queuemgr.web.api.json_body import StrictJson
from queuemgr.web.api.problems import MEDIA_TYPE, TITLES

DESCRIPTION = """
Enqueue, inspect and manage the executions of a fleet.

Authenticate with `Authorization: Bearer TOKEN`. Errors are problems (RFC 9457). A request that
changes something may carry an `Idempotency-Key`: repeated, it takes effect once. See docs/api.md
for examples.
"""

MODULES = (
    executions, execution_by_key, enqueue, dry_run, execution_actions, batches, bulk, limits, queues,
    schedules, webhooks, workers, costs, search, what_if,
)  # fmt: skip

PROBLEM_SCHEMA = {
    "title": "Problem",
    "description": "An error (RFC 9457); further members by type, see docs/api.md.",
    "type": "object",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "enum": [f"{problems.PAGE}#{name}" for name in TITLES]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
    },
}
RETRY_AFTER = {"Retry-After": {"description": "Seconds", "schema": {"type": "string"}}}
ALWAYS = (400, 401, 403, 422, 429, 500, 503)
WITH_A_BODY = (409, 413, 415)


FILES = "queuemgr.web.ninja_files"
NO_FILES = f"Add '{FILES}.NinjaFiles' to INSTALLED_APPS for this page. openapi.json is there."


def pages_login_required(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Send whoever may not open our pages to the login of the site that has them."""

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if user_model.may_open_pages(request.user):
            return view(request, *args, **kwargs)
        login = links.address_on(links.current_site(), "login") or None
        return redirect_to_login(request.get_full_path(), login)

    return checked


class LocalSwagger(Swagger):
    """Swagger's page for those who may open the pages, from local static files, with the session's CSRF
    token."""

    @method_decorator(pages_login_required)
    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        if not (apps.is_installed(FILES) or apps.is_installed("ninja")):
            return HttpResponseNotFound(NO_FILES, content_type="text/plain; charset=utf-8")
        self.settings["url"] = self.get_openapi_url(api, kwargs)
        context = {"swagger_settings": json.dumps(self.settings), "api": api, "add_csrf": True}
        return render(request, self.template, context)


class SluiceApi(NinjaAPI):
    """Ninja's API, whose schema also has the problems and permissions of each operation."""

    def get_openapi_schema(self, **kwargs: Any) -> OpenAPISchema:
        schema = super().get_openapi_schema(**kwargs)
        schema["components"]["schemas"]["Problem"] = PROBLEM_SCHEMA
        for path, methods in schema["paths"].items():
            for operation in methods.values():
                on_a_row = (404,) if "{" in path else ()
                with_a_body = WITH_A_BODY if "requestBody" in operation else ()
                for status in (*ALWAYS, *on_a_row, *with_a_body):
                    operation["responses"].setdefault(status, _problem(status))
                needs = f"Scope `{operation['x-scope']}`, permission `{operation['x-permission']}`."
                operation["description"] = f"{operation.get('description', '')}\n\n{needs}"
        return schema

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return str(operation.view_func.__name__)


def _problem(status: int) -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    titles = [title for code, title in TITLES.values() if code == status]
    response = {"description": "; ".join(titles), "content": content}
    return {**response, "headers": RETRY_AFTER} if status in (429, 503) else response


api = SluiceApi(
    title="Sluicegate",
    version="1",
    description=DESCRIPTION.strip(),
    urls_namespace="api-v1",
    docs=LocalSwagger(),
    parser=StrictJson(),
)
problems.register(api)
for router in dict.fromkeys(module.router for module in MODULES):
    api.add_router("", router)
