"""Failed logins: recorded in the audit log, which every web process reads to slow down whoever guesses.

The log names the account, or for a name that no account has its first letter: people type their password
into the wrong field. No password is ever in it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.utils.crypto import salted_hmac

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import AuditEntry
from queuemgr.operations import user_model
from queuemgr.operations.controls import Actor

FAILED = "failed login"
WINDOW = timedelta(minutes=5)

FROM_ONE_ADDRESS_TO_ONE_ACCOUNT = 5
FROM_ONE_ADDRESS = 30
TO_ONE_ACCOUNT = 50
"""Failures within the window after which further logins are refused. An account takes more from elsewhere
than from one address, so that its owner is not shut out by somebody who guesses."""

RECORDED = 1_000
"""Failures of all accounts and addresses that are recorded within the window."""


LONGEST_NAME = 255
"""Characters of what was typed that are looked up as a name."""


def seconds_to_wait(username: str, address: str) -> int:
    """Seconds until this address may try this account again; 0: now."""
    now = database_now()
    recent = AuditEntry.objects.filter(action=FAILED, at__gt=now - WINDOW)
    account, here = Q(target=account_of(username)), Q(actor=actor_of(address))
    waits = (
        _wait(recent.filter(account, here), FROM_ONE_ADDRESS_TO_ONE_ACCOUNT, now),
        _wait(recent.filter(here), FROM_ONE_ADDRESS, now),
        _wait(recent.filter(account), TO_ONE_ACCOUNT, now),
    )
    return max(waits)


def _wait(failures: QuerySet[AuditEntry], allowed: int, now: datetime) -> int:
    """Seconds until fewer than so many of these failures are within the window."""
    newest = failures.order_by("-at").values_list("at", flat=True)[allowed - 1 : allowed]
    return max((1 + int((at + WINDOW - now).total_seconds()) for at in newest), default=0)


def record_failure(username: str, address: str) -> None:
    """Record a failed login, unless very many are recorded already."""
    recent = AuditEntry.objects.filter(action=FAILED, at__gt=database_now() - WINDOW)
    if recent.order_by()[:RECORDED].count() < RECORDED:
        Actor(actor_of(address), "admin").record(FAILED, account_of(username))


def account_of(username: str) -> str:
    """`user ann`; for a name that no account has, its first letter and a number that tells it from others."""
    known = user_model.named(username[:LONGEST_NAME])
    if known is not None:
        return f"user {user_model.name_of(known)}"
    number = salted_hmac("queuemgr.failed_login", username).hexdigest()[:8]
    return f"unknown user {ascii(username[:1])[1:-1]}… {number}"


def actor_of(address: str) -> str:
    return f"address {address}"[:150]
