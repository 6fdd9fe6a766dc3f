"""Authentication by token or session, and authorization by scope and permission.

A route declares both (`**requires("operate", "retry_execution")`). They are checked before its input
is validated, so that a caller without permission learns nothing from validation errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from ninja.security import HttpBearer, SessionAuth
from ninja.utils import check_csrf

from queuemgr.base.redaction import clean
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import ApiToken
from queuemgr.operations import api_tokens, user_model
from queuemgr.operations.controls import Actor
from queuemgr.web.api.problems import Problem, no_token

APP = "queuemgr"


@dataclass(frozen=True)
class Caller:
    """The user of a request, and the token it came with (None: a session, which has all scopes)."""

    user: Any
    token: ApiToken | None = None

    def __post_init__(self) -> None:
        user_model.completed(self.user)

    def require(self, scope: str, permission: str) -> None:
        """Raise `Problem` naming the scope or the permission that is missing."""
        if self.token is not None and scope not in self.token.scopes:
            detail = f"token {self.token.name} lacks the scope {scope}; it has {', '.join(self.token.scopes)}"
            raise Problem("scope-missing", detail, scope=scope)
        wanted = permission if "." in permission else f"{APP}.{permission}"
        if not self.user.has_perm(wanted):
            name = user_model.name_of(self.user)
            detail = f"{name} lacks the permission {wanted}"
            raise Problem("permission-missing", detail, permission=wanted)

    @property
    def sees_payloads(self) -> bool:
        in_scope = self.token is None or "payload" in self.token.scopes
        return in_scope and bool(self.user.has_perm(f"{APP}.view_payload"))


def caller_of(request: HttpRequest) -> Caller:
    """The authenticated caller; only in routes declared with `requires`."""
    caller: Caller = request.auth  # type: ignore[attr-defined]  # ninja puts it there
    return caller


REASON = "X-Reason"


def actor_of(request: HttpRequest, reason: str = "") -> Actor:
    """The caller for the audit log, with the reason from the body or the header `X-Reason`."""
    reason = reason or _decode(request.headers.get(REASON, ""))
    caller = caller_of(request)
    token_id = caller.token.pk if caller.token else None
    name, said = user_model.name_of(caller.user), clean(reason)[:200]
    return Actor(name, "api", said, user_id=caller.user.pk, token_id=token_id)


def _decode(header: str) -> str:
    """WSGI decodes headers as Latin-1; most clients send UTF-8."""
    try:
        return header.encode("latin-1").decode("utf-8").replace("\x00", "")
    except UnicodeError:
        return header.replace("\x00", "")


class _Requires:
    def __init__(self, scope: str, permission: str) -> None:
        super().__init__()
        self.scope, self.permission = scope, permission

    def admit(self, caller: Caller) -> Caller:
        caller.require(self.scope, self.permission)
        return caller


class Bearer(_Requires, HttpBearer):
    """`Authorization: Bearer TOKEN`; each request counts against the token's rate limit."""

    openapi_description = "A token, created by `manage.py queue token create` or in the admin."

    def authenticate(self, request: HttpRequest, token: str) -> Caller:
        now, known = database_now(), api_tokens.find(token)
        if known is None:
            raise no_token("unknown token", "invalid_token")
        if problem := api_tokens.blocking_reasons(known, now):
            raise no_token(problem, "invalid_token")
        wait = api_tokens.count(known, now)
        if wait is not None:
            raise Problem(
                "too-many-requests", f"the rate limit of token {known.name} is {known.rate}",
                headers={"Retry-After": str(math.ceil(wait) or 1)}, retry_after_seconds=round(wait, 3),
            )  # fmt: skip
        return self.admit(Caller(known.owner, known))


class Session(_Requires, SessionAuth):
    """A logged-in user, as on the docs page; requests that change something need the CSRF token."""

    def __call__(self, request: HttpRequest) -> Caller | None:
        if "Authorization" in request.headers or not request.user.is_authenticated:
            return None
        if check_csrf(request) is not None:
            raise Problem("csrf-failed", "send the CSRF cookie's value in the header X-CSRFToken")
        return self.admit(Caller(request.user))


def requires(scope: str, permission: str) -> dict[str, Any]:
    """Arguments of a route: `router.get(path, **requires("read", "view_execution"))`."""
    extra = {"x-scope": scope, "x-permission": f"{APP}.{permission}"}
    return {"auth": [Bearer(scope, permission), Session(scope, permission)], "openapi_extra": extra}
