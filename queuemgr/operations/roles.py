"""The three roles, as Django groups over permissions that each stand for one action.

A viewer sees everything but payloads. An operator also retries, cancels, skips, prioritises, pauses,
enqueues, runs bulk actions, undoes, silences and tests alerts, and shares views of lists. An admin also edits
limits, queues, retry policies and payloads, and gives out tokens and roles. A group is made once; what a site
changes in it stays. New permissions of a release go to the groups that no site has changed.

Of a project's own applications the roles hold only those that the setting `SLUICE_ROLE_APPS` names.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth.models import Group, Permission
from django.db.models import Q, QuerySet

from queuemgr.base import transaction
from queuemgr.base.errors import BadInput
from queuemgr.operations import user_model
from queuemgr.operations.controls import Actor

VIEWER, OPERATOR, ADMIN = ROLES = ("viewer", "operator", "admin")

RESET_ROLE = "reset role"

SECRET = ("view_payload", "view_apitoken", "view_idempotencyrecord")
"""What a viewer may not see."""

OPERATES = (
    "view_payload", "retry_execution", "cancel_execution", "skip_execution", "prioritise_execution",
    "pause_queue", "pause_limit", "pause_schedule", "run_schedule", "pause_webhook",
    "test_webhook", "drain_worker", "add_bulkaction",
    "stop_bulkaction", "add_execution", "add_batch", "change_batch", "undo_auditentry",
    "silence_alert", "test_alert", "share_savedview",
)  # fmt: skip
"""What an operator may do besides viewing."""


def permissions_of(role: str) -> QuerySet[Permission]:
    """The permissions a role is made with; raises `BadInput` for an unknown role."""
    accounts = user_model.model()._meta
    theirs = Q(content_type__app_label=accounts.app_label, content_type__model=accounts.model_name)
    work = Q(content_type__app_label__in=("queuemgr", *getattr(settings, "SLUICE_ROLE_APPS", ()))) & ~theirs
    looks = work & Q(codename__startswith="view_") & ~Q(codename__in=SECRET)
    acts = Q(content_type__app_label="queuemgr", codename__in=OPERATES)
    people = theirs | Q(content_type__app_label="auth", content_type__model="group")
    held = {VIEWER: looks, OPERATOR: looks | acts, ADMIN: work | people}
    if role not in held:
        raise BadInput(f"no role is called {role!r}; there are: {', '.join(ROLES)}")
    return Permission.objects.filter(held[role])


@transaction.atomic
def make() -> list[str]:
    """Make the missing groups; returns their names. Does nothing before every permission exists, which
    `migrate` makes at its end."""
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


@transaction.atomic
def grant_new(before: Collection[str]) -> dict[str, list[str]]:
    """Give the groups the permissions of their roles that a new release brought: those not in `before`, which
    are the names of what there was. Returns them by role.

    Only a group that was as its role said: a person has changed any other, and `difference` names what it
    lacks.
    """
    granted: dict[str, list[str]] = {}
    for role in ROLES if any(name.startswith("queuemgr.") for name in before) else ():
        stated, held = {*names(permissions_of(role))}, {*names(Permission.objects.filter(group__name=role))}
        new = stated - held
        if not new or held != stated & {*before} or not Group.objects.filter(name=role).exists():
            continue
        Group.objects.get(name=role).permissions.set(permissions_of(role))
        granted[role] = sorted(new)
    return granted


def known() -> frozenset[str]:
    """The names of the permissions there are."""
    return frozenset(names(Permission.objects.all()))


class Differs(NamedTuple):
    """Permissions (`app.codename`) a role's group lacks, and those it has besides its own."""

    lacks: tuple[str, ...]
    besides: tuple[str, ...]


def difference(role: str) -> Differs:
    """How this role's group was changed, or lacks new permissions."""
    stated = {*names(permissions_of(role))}
    held = {*names(Permission.objects.filter(group__name=role))}
    return Differs(tuple(sorted(stated - held)), tuple(sorted(held - stated)))


@transaction.atomic
def reset(role: str, by: Actor) -> bool:
    """Reset a role's group to its own permissions; returns whether that changed anything."""
    differs = difference(role)
    if not (differs.lacks or differs.besides):
        return False
    Group.objects.get_or_create(name=role)[0].permissions.set(permissions_of(role))
    before, after = {"permissions": list(differs.besides)}, {"permissions": list(differs.lacks)}
    by.record(RESET_ROLE, f"group {role}", before, after)
    return True


def names(permissions: QuerySet[Permission]) -> list[str]:
    """As `app.codename`, sorted."""
    pairs = permissions.order_by().values_list("content_type__app_label", "codename")
    return sorted({f"{app}.{name}" for app, name in pairs})
