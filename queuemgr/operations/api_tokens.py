"""API tokens: stored as a digest, rate-limited exactly, revoked for good.

A token is 256 random bits, so its SHA-256 is as hard to invert as the token is to guess; a slow hash would
only slow every request down.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.db.models import F, Q, Value
from django.db.models.functions import Greatest

from queuemgr.base import transaction
from queuemgr.base.errors import BadInput
from queuemgr.base.rate import parse_rate
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import ApiToken
from queuemgr.operations import user_model
from queuemgr.operations.controls import Actor

PREFIX = "sluice_"
"""Lets people and secret scanners recognise a token."""

SCOPES = {
    "read": "see executions, attempts, batches, bulk actions, limits, queues and statistics",
    "payload": "see payloads and contexts, and give edited ones",
    "enqueue": "enqueue work, open batches and add to them",
    "operate": "retry, cancel, skip, prioritise, pause, resume, close batches, run bulk actions",
    "limits": "edit limits and queues",
}
"""The scopes of tokens, and what each allows. The owner's permissions apply as well."""

MAKE_TOKEN, REVOKE_TOKEN = "make token", "revoke token"
"""What the audit log calls making and revoking one."""

LONGEST_RATE = 32

ROUNDING = 1e-6
"""Seconds by which sums of many intervals may be off."""


class NewToken(NamedTuple):
    """A token just made, and its secret, which is stored nowhere."""

    token: ApiToken
    secret: str


def make(
    name: str,
    owner: Any,
    scopes: Sequence[str],
    by: Actor,
    *,
    rate: str = "600/minute",
    expires_at: datetime | None = None,
) -> NewToken:
    """A new token and its secret, which is returned here and never again.

    Raises `BadInput` for a name in use, no or unknown scopes, an invalid rate, or an expiry in the past.
    """
    _check(name, scopes, rate, expires_at)
    secret = PREFIX + secrets.token_urlsafe(32)
    token = ApiToken(
        name=name, owner=owner, scopes=[scope for scope in SCOPES if scope in scopes],
        rate=rate.strip(), expires_at=expires_at, digest=digest_of(secret),
    )  # fmt: skip
    try:
        token.full_clean(exclude=["rate"])  # checked, and empty where there is none
    except ValidationError as error:
        said = "; ".join(f"{field}: {' '.join(m)}" for field, m in error.message_dict.items())
        raise BadInput(f"token {token.name!r}: {said}") from None
    with transaction.atomic():
        token.save()
        by.record(MAKE_TOKEN, name, after=serialize(token))
    return NewToken(token, secret)


def _check(name: str, scopes: Sequence[str], rate: str, expires_at: datetime | None) -> None:
    if not name.strip() or not name.isprintable():
        raise BadInput("a token needs a name of printable characters, so that it can be revoked by it")
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        raise BadInput(f"scopes {', '.join(unknown) or 'none'}: there are {', '.join(SCOPES)}")
    if len(rate) > LONGEST_RATE:
        raise BadInput(f"rate {rate[:LONGEST_RATE]!r} is longer than {LONGEST_RATE} characters")
    parse_rate(rate, at_once=True)
    if expires_at is not None and expires_at <= database_now():
        raise BadInput(f"a token that expires at {expires_at:%Y-%m-%d %H:%M} UTC could never be used")


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def serialize(token: ApiToken) -> dict[str, Any]:
    """A token in audit entries: without secret and digest."""
    return {
        "owner": user_model.name_of(token.owner),
        "scopes": token.scopes,
        "rate": token.rate,
        "expires_at": token.expires_at.isoformat() if token.expires_at else None,
    }


def revoke(tokens: Iterable[ApiToken], by: Actor) -> list[str]:
    """Revoke these; returns the names of those that were not revoked before."""
    revoked = []
    for token in tokens:
        with transaction.atomic():
            alive = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True)
            if alive.update(revoked_at=database_now()):
                by.record(REVOKE_TOKEN, token.name, {"is": "valid"}, {"is": "revoked"})
                revoked.append(token.name)
    return revoked


def owner_named(username: str) -> Any:
    """The user of this name; raises `BadInput`."""
    owner = user_model.named(username)
    if owner is None:
        raise BadInput(
            f"no user is called {username!r}; make one with `manage.py createsuperuser` or in the admin"
        )
    return owner


def find(secret: str) -> ApiToken | None:
    """The token of this secret, also when it is revoked or expired."""
    tokens = ApiToken.objects.prefetch_related("owner")
    return tokens.filter(digest=digest_of(secret)).first()


def blocking_reasons(token: ApiToken, now: datetime) -> str:
    """Why this token is refused; empty when it is valid."""
    if token.revoked_at is not None:
        return f"token {token.name} was revoked"
    if token.expires_at is not None and token.expires_at <= now:
        return f"token {token.name} expired at {token.expires_at:%Y-%m-%d %H:%M} UTC"
    return "" if token.owner.is_active else f"the owner of token {token.name} is not active"


USED = timedelta(minutes=1)
"""How precise `used_at` is for tokens without a rate."""


def count(token: ApiToken, now: datetime) -> float | None:
    """Charge one request to the token's rate, atomically (see `base.rate`): the seconds to wait if it is
    refused, else None."""
    rate, row = parse_rate(token.rate, at_once=True), ApiToken.objects.filter(pk=token.pk)
    if rate is None:
        row.filter(Q(used_at__isnull=True) | Q(used_at__lt=now - USED)).update(used_at=now)
        return None
    at = now.timestamp()
    moved_on = Greatest(F("counted_until"), Value(at)) + Value(rate.interval)
    in_time = row.filter(counted_until__lte=at + rate.tolerance + ROUNDING)
    if in_time.update(counted_until=moved_on, used_at=now):
        return None
    ahead = row.values_list("counted_until", flat=True).get() - at
    return rate.wait(ahead, 0)
