"""Users and groups: their audit entries, and giving someone a role. Passwords are never in an entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db.models import Q

from queuemgr.base import transaction
from queuemgr.base.errors import BadInput
from queuemgr.flows.payload_validation import check_text
from queuemgr.operations import roles
from queuemgr.operations.controls import Actor

Values = Mapping[str, Any]

SET_PASSWORD = "set password"  # noqa: S105  the name of an action

FIELDS = (
    "username", "email", "first_name", "last_name", "is_active", "is_staff", "is_superuser",
)  # fmt: skip


def serialize(row: User | Group) -> Values:
    """The fields and permissions of a user or group, for audit entries."""
    if isinstance(row, Group):
        return {"name": row.name, "permissions": roles.names(row.permissions.all())}
    fields = {field: getattr(row, field) for field in FIELDS}
    groups = list(row.groups.order_by("name").values_list("name", flat=True))
    return {**fields, "groups": groups, "permissions": roles.names(row.user_permissions.all())}


def target_of(row: User | Group) -> str:
    """`user ann` or `group operator`: the target of audit entries."""
    return f"{row._meta.model_name} {row}"


def record(action: str, row: User | Group, before: Values, by: Actor) -> None:
    """Record what changed of a user or group; nothing when nothing did."""
    after = serialize(row)
    changed = {name: value for name, value in after.items() if before.get(name, ...) != value}
    if not before:
        changed = {name: value for name, value in changed.items() if value}
    if changed:
        was = {name: before[name] for name in changed if name in before}
        by.record(f"{action} {row._meta.model_name}", target_of(row), was, changed)


def record_removal(row: User | Group, by: Actor) -> None:
    held = {name: value for name, value in serialize(row).items() if value}
    by.record(f"delete {row._meta.model_name}", target_of(row), held)


def record_password(user: User, by: Actor) -> None:
    """Record that a password was set or made unusable."""
    password = "usable" if user.has_usable_password() else "not usable"
    by.record(SET_PASSWORD, target_of(user), {}, {"password": password})


@transaction.atomic
def give_role(name: str, role: str, by: Actor) -> User:
    """Give a user this role and no other (`none`: no role), making the account if there is none.

    A new user cannot log in before a password is set. Raises `BadInput` for an unknown role.
    """
    check_text("user", name, 150)
    if role != "none":
        roles.permissions_of(role)
        roles.make()
    user = User.objects.select_for_update().filter(username=name).first()
    before, action = (serialize(user), "edit") if user else ({}, "add")
    user = user or _new_user(name)
    user.is_staff = user.is_superuser or role != "none"
    user.save(update_fields=["is_staff"])
    kept = list(user.groups.exclude(name__in=roles.ROLES))
    user.groups.set([*kept, *Group.objects.filter(name=role)])
    record(action, user, before, by)
    return user


def let_in_by_role(user: User) -> None:
    """Let a user with a role into the admin, and one without stay out."""
    user.is_staff = user.is_superuser or user.groups.exists()
    user.save(update_fields=["is_staff"])


def first_superuser(name: str, password: str, by: Actor) -> None:
    """Make a superuser of this name with this password, if there is no superuser and nobody of this name."""
    if not User.objects.filter(Q(is_superuser=True) | Q(username=name)).exists():
        record("add", User.objects.create_superuser(name, password=password), {}, by)


def has_password(name: str, password: str) -> bool:
    """Whether this user may log in with this password."""
    user = User.objects.filter(username=name, is_active=True).first()
    return user is not None and user.check_password(password)


def _new_user(name: str) -> User:
    try:
        User(username=name).clean_fields(exclude={"password"})
    except ValidationError as error:
        raise BadInput(f"{name!r} cannot be a user's name: {' '.join(error.messages)}") from None
    return User.objects.create_user(name)
