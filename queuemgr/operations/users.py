"""People and groups: what the record of changes says of them, and giving someone a role.

Passwords are never told, only that one was set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import ValidationError
from django.db import transaction

from queuemgr.base.errors import BadInput
from queuemgr.operations import roles
from queuemgr.operations.controls import Actor

Facts = Mapping[str, Any]

COLUMNS = (
    "username", "email", "first_name", "last_name", "is_active", "is_staff", "is_superuser",
)  # fmt: skip


def facts_of(row: User | Group) -> Facts:
    """What someone may, and is called; or what a group may."""
    if isinstance(row, Group):
        return {"name": row.name, "permissions": _names(row.permissions)}
    columns = {column: getattr(row, column) for column in COLUMNS}
    groups = list(row.groups.order_by("name").values_list("name", flat=True))
    return {**columns, "groups": groups, "permissions": _names(row.user_permissions)}


def target_of(row: User | Group) -> str:
    """`user ann` or `group operator`, as changes name them."""
    return f"{'group' if isinstance(row, Group) else 'user'} {row}"


def record(action: str, row: User | Group, before: Facts, by: Actor) -> None:
    """Record what has become of someone, or of a group; nothing when nothing has."""
    after = facts_of(row)
    altered = {name: value for name, value in after.items() if before.get(name, ...) != value}
    if not before:
        altered = {name: value for name, value in altered.items() if value}
    if altered:
        was = {name: before[name] for name in altered if name in before}
        by.record(f"{action} {_kind(row)}", target_of(row), was, altered)


def record_removal(row: User | Group, by: Actor) -> None:
    held = {name: value for name, value in facts_of(row).items() if value}
    by.record(f"delete {_kind(row)}", target_of(row), held)


def record_password(user: User, by: Actor) -> None:
    """That someone was given another password, or none that can be used."""
    kept = "usable" if user.has_usable_password() else "not usable"
    by.record("set password", target_of(user), {}, {"password": kept})


@transaction.atomic
def give_role(name: str, role: str, by: Actor) -> User:
    """Give someone this role and no other (`none`: none), making the account if there is none.

    A new one cannot log in before a password is set. Raises `BadInput` for a role there is not.
    """
    if role != "none":
        roles.permissions_of(role)
        roles.make()
    user = User.objects.select_for_update().filter(username=name).first()
    before, action = (facts_of(user), "edit") if user else ({}, "add")
    user = user or _new_user(name)
    user.is_staff = user.is_superuser or role != "none"
    user.save(update_fields=["is_staff"])
    kept = list(user.groups.exclude(name__in=roles.ROLES))
    user.groups.set([*kept, *Group.objects.filter(name=role)])
    record(action, user, before, by)
    return user


def ensure_superuser(name: str, password: str, by: Actor) -> None:
    """Have a superuser of this name and password; one that is there keeps all but its password."""
    user = User.objects.filter(username=name).first()
    if user is None:
        user = User.objects.create_superuser(name)
        record("add", user, {}, by)
    if not user.check_password(password):
        user.set_password(password)
        user.save()


def _new_user(name: str) -> User:
    try:
        User(username=name).clean_fields(exclude={"password"})
    except ValidationError as error:
        raise BadInput(f"{name!r} cannot be a user's name: {' '.join(error.messages)}") from None
    return User.objects.create_user(name)


def _kind(row: User | Group) -> str:
    return "group" if isinstance(row, Group) else "user"


def _names(permissions: Any) -> list[str]:
    rows: Any = Permission.objects.filter(pk__in=permissions.values("pk"))
    pairs = rows.order_by("content_type__app_label", "codename")
    return [
        f"{app}.{name}" for app, name in pairs.values_list("content_type__app_label", "codename")
    ]
