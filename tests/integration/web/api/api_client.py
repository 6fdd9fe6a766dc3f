"""Calling the HTTP API as a program would: with a token of someone who holds just these permissions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client

from queuemgr.operations import api_tokens
from queuemgr.operations.controls import Actor
from queuemgr.web.api.problems import MEDIA_TYPE, TITLES

ROOT = "/api/v1/"
EVERY_SCOPE = tuple(api_tokens.SCOPES)
ANN = Actor("ann", "command", "for a test")


class Api:
    """A program with a token. Answers keep their JSON in `json()`, as Django's test client has it."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self._client = Client(raise_request_exception=False)

    def get(self, path: str, **query: Any) -> Any:
        return self._client.get(f"{ROOT}{path}", query, headers=self._headers())

    def head(self, path: str) -> Any:
        return self._client.head(f"{ROOT}{path}", headers=self._headers())

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self._send("POST", path, body, headers)

    def patch(self, path: str, body: Any = None, **headers: str) -> Any:
        return self._send("PATCH", path, body, headers)

    def raw(self, path: str, body: bytes, content_type: str = "application/json") -> Any:
        return self._generic("POST", path, body, content_type, {})

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is None:
            return self._generic(method, path, b"", "", named)
        return self._generic(method, path, json.dumps(body).encode(), "application/json", named)

    def _generic(
        self, method: str, path: str, body: bytes, content_type: str, headers: dict[str, str]
    ) -> Any:
        return self._client.generic(
            method, f"{ROOT}{path}", body, content_type, headers={**self._headers(), **headers}
        )

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"}


def someone(name: str = "ann", permissions: Iterable[str] | None = None) -> User:
    """A person with these permissions of the queue; None: all there are."""
    user, _ = User.objects.get_or_create(username=name)
    held = Permission.objects.filter(content_type__app_label="queuemgr")
    if permissions is not None:
        held = held.filter(codename__in=list(permissions))
        assert held.count() == len(set(permissions)), permissions
    user.user_permissions.set(held)
    return user


def make_token(
    *scopes: str, owner: User | None = None, name: str = "robot", **given: Any
) -> api_tokens.NewToken:
    return api_tokens.make(name, owner or someone(), scopes or EVERY_SCOPE, ANN, **given)


def api(*scopes: str, permissions: Iterable[str] | None = None, name: str = "robot", **given: Any) -> Api:
    """A program with a token of these scopes (none: all) and an owner of these permissions."""
    _, secret = make_token(*scopes, owner=someone(f"owner-of-{name}", permissions), name=name, **given)
    return Api(secret)


def problem(response: Any, name: str) -> dict[str, Any]:
    """The members of a problem, once it is found to be well made and of this type."""
    assert response["Content-Type"] == MEDIA_TYPE, response.content
    body: dict[str, Any] = response.json()
    status, title = TITLES[name]
    assert body["type"] == f"docs/api.md#{name}", body
    assert (body["title"], body["status"], response.status_code) == (title, status, status)
    assert isinstance(body["detail"], str)
    assert body["detail"]
    return body
