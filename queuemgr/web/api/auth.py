"""Who asks, and whether they may: a token within its scopes and its owner's permissions, or a session.

A route says what it needs (`**needs("operate", "retry_execution")`); the check runs before its input
is read, so whoever may not learns nothing from what is wrong with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja.security import APIKeyCookie, HttpBearer
from ninja.utils import check_csrf

from queuemgr.base.redaction import clean
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import ApiToken
from queuemgr.operations import api_tokens
from queuemgr.operations.controls import Actor
from queuemgr.web.api.problems import Problem, no_token

APP = "queuemgr"


@dataclass(frozen=True)
class Caller:
    """The person behind a request, and the token they came with (none: a session, all scopes)."""

    user: Any
    token: ApiToken | None = None

    def may(self, scope: str, permission: str) -> bool:
        in_scope = self.token is None or scope in self.token.scopes
        return in_scope and bool(self.user.has_perm(f"{APP}.{permission}"))

    def must(self, scope: str, permission: str) -> None:
        """Raise `Problem` naming the scope or the permission that is missing."""
        if self.token is not None and scope not in self.token.scopes:
            detail = f"token {self.token.name} lacks the scope {scope}; it has {', '.join(self.token.scopes)}"
            raise Problem("scope-missing", detail, scope=scope)
        if not self.user.has_perm(f"{APP}.{permission}"):
            name = self.user.get_username()
            detail = f"{name} lacks the permission {APP}.{permission}"
            raise Problem("permission-missing", detail, permission=f"{APP}.{permission}")

    @property
    def sees_payloads(self) -> bool:
        return self.may("payload", "view_payload")


def caller_of(request: HttpRequest) -> Caller:
    """Who asks, as the routes' guards found out."""
    caller: Caller = request.auth  # type: ignore[attr-defined]  # ninja puts it there
    return caller


REASON = "X-Reason"


def by(request: HttpRequest, reason: str = "") -> Actor:
    """The caller as the record of changes names them; why, from the body or the header."""
    said = reason or _latin(request.headers.get(REASON, ""))
    return Actor(caller_of(request).user.get_username(), "api", clean(said)[:200])


def _latin(header: str) -> str:
    """Headers come as Latin-1; whoever sent UTF-8 meant it."""
    try:
        return header.encode("latin-1").decode("utf-8").replace("\x00", "")
    except UnicodeError:
        return header.replace("\x00", "")


class Bearer(HttpBearer):
    """`Authorization: Bearer TOKEN`: counted under the token's rate, whatever becomes of the request."""

    openapi_description = "A token; `manage.py queue token create` or the admin makes one."

    def __init__(self, scope: str, permission: str) -> None:
        super().__init__()
        self.scope, self.permission = scope, permission

    def authenticate(self, request: HttpRequest, token: str) -> Caller:
        now, found = database_now(), api_tokens.find(token)
        if found is None:
            raise no_token("no token has this secret", "invalid_token")
        if problem := api_tokens.blocking_reasons(found, now):
            raise no_token(problem, "invalid_token")
        _count(found, now)
        caller = Caller(found.owner, found)
        caller.must(self.scope, self.permission)
        return caller


def _count(token: ApiToken, now: Any) -> None:
    counted = api_tokens.count(token, now)
    if not counted.passed:
        wait = math.ceil(counted.wait) or 1
        raise Problem(
            "too-many-requests", f"token {token.name} may send {token.rate}",
            headers={"Retry-After": str(wait)}, retry_after_seconds=round(counted.wait, 3),
        )  # fmt: skip


class Session(APIKeyCookie):
    """Someone logged in, as on the docs page; what changes anything needs the CSRF token as well."""

    param_name = settings.SESSION_COOKIE_NAME

    def __init__(self, scope: str, permission: str) -> None:
        super().__init__()
        self.scope, self.permission = scope, permission

    def __call__(self, request: HttpRequest) -> Caller | None:
        if "Authorization" in request.headers or not request.user.is_authenticated:
            return None
        if check_csrf(request) is not None:
            raise Problem("csrf-failed", "send the cookie's token in the header X-CSRFToken")
        return self.authenticate(request, None)

    def authenticate(self, request: HttpRequest, key: str | None) -> Caller:
        caller = Caller(request.user)
        caller.must(self.scope, self.permission)
        return caller


def needs(scope: str, permission: str) -> dict[str, Any]:
    """What a route asks of its caller: `router.get(path, **needs("read", "view_execution"))`."""
    said = {"x-scope": scope, "x-permission": f"{APP}.{permission}"}
    guards = [Bearer(scope, permission), Session(scope, permission)]
    return {"auth": guards, "openapi_extra": said}
