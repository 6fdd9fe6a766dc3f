"""Makes the API: its OpenAPI schema with problems and permissions, and its docs page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from ninja import NinjaAPI, Router
from ninja.openapi.docs import Swagger
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from queuemgr.web.api import problems
from queuemgr.web.api.json_body import StrictJson
from queuemgr.web.api.problems import MEDIA_TYPE, TITLES

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


class LocalSwagger(Swagger):
    """Swagger's page for staff users, from local static files, with the session's CSRF token."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **given: Any) -> HttpResponse:
        @staff_member_required
        def page(request: HttpRequest) -> HttpResponse:
            self.settings["url"] = self.get_openapi_url(api, given)
            context = {"swagger_settings": json.dumps(self.settings), "api": api, "add_csrf": True}
            return render(request, self.template, context)

        return page(request)


class SluiceApi(NinjaAPI):
    """Ninja's API, whose schema also has the problems and permissions of each operation."""

    def get_openapi_schema(self, **given: Any) -> OpenAPISchema:
        schema = super().get_openapi_schema(**given)
        schema["components"]["schemas"]["Problem"] = PROBLEM_SCHEMA
        for path, operation in _operations(schema):
            for status in _statuses(path, operation):
                operation["responses"].setdefault(status, _problem(status))
            if "x-permission" in operation:
                operation["description"] = _with_permission(operation)
        return schema

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return str(operation.view_func.__name__)


def _operations(schema: OpenAPISchema) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            yield path, operation


def _statuses(path: str, operation: dict[str, Any]) -> Iterator[int]:
    yield from ALWAYS
    if "{" in path:
        yield 404
    if "requestBody" in operation:
        yield from WITH_A_BODY


def _problem(status: int) -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    names = [name for name, (code, _) in TITLES.items() if code == status]
    response = {"description": "; ".join(TITLES[name][1] for name in names), "content": content}
    return {**response, "headers": RETRY_AFTER} if status in (429, 503) else response


def _with_permission(operation: dict[str, Any]) -> str:
    text = operation.get("description", "")
    return f"{text}\n\nScope `{operation['x-scope']}`, permission `{operation['x-permission']}`."


def make(description: str, routers: Iterable[Router]) -> SluiceApi:
    """An API of these routes, mounted by `path("api/v1/", api.urls)`."""
    api = SluiceApi(
        title="Sluicegate",
        version="1",
        description=description,
        urls_namespace="api-v1",
        docs=LocalSwagger(),
        parser=StrictJson(),
    )
    problems.register(api)
    for router in routers:
        api.add_router("", router)
    return api
