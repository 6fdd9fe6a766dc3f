"""Who may do what: three roles, as Django groups, over permissions that each stand for one act.

A viewer looks, but not into payloads. An operator steers work: retries, cancels, skips, prioritises,
pauses, enqueues, acts in bulk, undoes. An admin also sets limits, queues' caps and retry policies, edits
payloads, and gives out tokens and roles. A group is made once; what a site alters in it stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.db.models import Q, QuerySet

from queuemgr.base.errors import BadInput
from queuemgr.operations.controls import Actor

VIEWER, OPERATOR, ADMIN = ROLES = ("viewer", "operator", "admin")

DJANGOS_OWN = ("admin", "auth", "contenttypes", "sessions")
"""Applications that hold nothing of the work: people, sessions, and the admin's own log."""

SECRET = ("view_payload", "view_apitoken", "view_idempotencyrecord")
"""What may be looked at by more than a viewer alone."""

OPERATES = (
    "view_payload", "retry_execution", "cancel_execution", "skip_execution", "prioritise_execution",
    "pause_queue", "pause_limit", "add_bulkaction", "stop_bulkaction", "add_execution", "add_batch",
    "change_batch", "undo_auditentry",
)  # fmt: skip
"""What an operator may do beyond looking."""


def permissions_of(role: str) -> QuerySet[Permission]:
    """What a role is made with; raises `BadInput` for one there is not."""
    work = ~Q(content_type__app_label__in=DJANGOS_OWN)
    looks = work & Q(codename__startswith="view_") & ~Q(codename__in=SECRET)
    acts = Q(content_type__app_label="queuemgr", codename__in=OPERATES)
    people = Q(content_type__app_label="auth", content_type__model__in=("user", "group"))
    held = {VIEWER: looks, OPERATOR: looks | acts, ADMIN: work | people}
    if role not in held:
        raise BadInput(f"no role is called {role!r}; there are: {', '.join(ROLES)}")
    return Permission.objects.filter(held[role])


@transaction.atomic
def make() -> list[str]:
    """Make the groups there are not yet; returns their names. Nothing before every permission is
    there, which `migrate` makes at its end."""
    known = Permission.objects.filter(content_type__app_label="queuemgr", codename__in=OPERATES)
    if known.count() < len(OPERATES):
        return []
    made = []
    for role in ROLES:
        group, new = Group.objects.get_or_create(name=role)
        if new:
            group.permissions.set(permissions_of(role))
            made.append(role)
    return made


@dataclass(frozen=True)
class Differs:
    """How a role's group differs from what it is made with: `app.codename` each."""

    lacks: tuple[str, ...]
    besides: tuple[str, ...]


def difference(role: str) -> Differs:
    """How this role's group was altered, or fell behind new permissions."""
    stated, held = _names(permissions_of(role)), _names(_held_by(role))
    return Differs(tuple(sorted(stated - held)), tuple(sorted(held - stated)))


@transaction.atomic
def reset(role: str, by: Actor) -> bool:
    """Give a role's group just what it is made with; tells whether that altered anything."""
    found = difference(role)
    if not (found.lacks or found.besides):
        return False
    Group.objects.get_or_create(name=role)[0].permissions.set(permissions_of(role))
    before, after = {"permissions": list(found.besides)}, {"permissions": list(found.lacks)}
    by.record("reset role", f"group {role}", before, after)
    return True


def _held_by(role: str) -> QuerySet[Permission]:
    return Permission.objects.filter(group__name=role)


def _names(permissions: Iterable[Permission]) -> set[str]:
    rows = Permission.objects.filter(pk__in=[p.pk for p in permissions])
    return {
        f"{app}.{name}" for app, name in rows.values_list("content_type__app_label", "codename")
    }
