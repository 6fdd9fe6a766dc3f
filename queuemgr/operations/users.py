"""Users and groups: their audit entries, and giving someone a role. Passwords are never in an entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import DatabaseError

from queuemgr.base import transaction
from queuemgr.base.errors import BadInput
from queuemgr.flows.payload_validation import check_text
from queuemgr.operations import roles, user_model
from queuemgr.operations.controls import Actor
from queuemgr.operations.user_model import User

Values = Mapping[str, Any]

SET_PASSWORD = "set password"  # noqa: S105  the name of an action


def serialize(row: User | Group) -> Values:
    """The fields and permissions of a user or group, for audit entries."""
    if isinstance(row, Group):
        return {"name": row.name, "permissions": roles.names(row.permissions.all())}
    fields = user_model.recorded(row)
    if user_model.has_groups():
        fields["groups"] = list(row.groups.order_by("name").values_list("name", flat=True))
    if user_model.has_own_permissions():
        fields["permissions"] = roles.names(row.user_permissions.all())
    return fields


def kind_of(row: User | Group) -> str:
    """`user` or `group` in audit entries, whatever the project calls its accounts."""
    return "group" if isinstance(row, Group) else "user"


def target_of(row: User | Group) -> str:
    """`user ann` or `group operator`: the target of audit entries."""
    name = row.name if isinstance(row, Group) else user_model.name_of(row)
    return f"{kind_of(row)} {name}"


def record(action: str, row: User | Group, before: Values, by: Actor) -> None:
    """Record what changed of a user or group; nothing when nothing did."""
    after = serialize(row)
    changed = {name: value for name, value in after.items() if before.get(name, ...) != value}
    if not before:
        changed = {name: value for name, value in changed.items() if value}
    if changed:
        was = {name: before[name] for name in changed if name in before}
        by.record(f"{action} {kind_of(row)}", target_of(row), was, changed)


def record_removal(row: User | Group, by: Actor) -> None:
    held = {name: value for name, value in serialize(row).items() if value}
    by.record(f"delete {kind_of(row)}", target_of(row), held)


def record_password(user: User, by: Actor) -> None:
    """Record that a password was set or made unusable."""
    password = "usable" if user.has_usable_password() else "not usable"
    by.record(SET_PASSWORD, target_of(user), {}, {"password": password})


@transaction.atomic
def give_role(name: str, role: str, by: Actor) -> User:
    """Give a user this role and no other (`none`: no role), making the account if there is none.

    A new user cannot log in before a password is set. Raises `BadInput` for an unknown role, and where
    accounts cannot have any.
    """
    check_text("user", name, 255)
    if not user_model.has_groups():
        raise BadInput(
            f"roles are groups, and {user_model.model()._meta.label} has no groups: state its permissions "
            "in the model's has_perm() or in an authentication backend"
        )
    if role != "none":
        roles.permissions_of(role)
        roles.make()
    with user_model.in_transaction():
        user = user_model.named(name, lock=True)
        before, action = (serialize(user), "edit") if user else ({}, "add")
        user = user or _new_user(name)
        kept = list(user.groups.exclude(name__in=roles.ROLES))
        user.groups.set([*kept, *Group.objects.filter(name=role)])
        let_in_by_role(user)
    record(action, user, before, by)
    return user


def let_in_by_role(user: User) -> None:
    """Let a user with a role into the admin, and one without stay out."""
    if user_model.has_column("is_staff"):
        user.is_staff = bool(getattr(user, "is_superuser", False)) or user.groups.exists()
        user.save(update_fields=["is_staff"])


def first_superuser(name: str, password: str, by: Actor) -> None:
    """Make a superuser of this name with this password, if there is no superuser and nobody of this name."""
    if not user_model.superusers().exists() and user_model.named(name) is None:
        made = user_model.model()._default_manager.create_superuser(name, password=password)
        record("add", made, {}, by)


def has_password(name: str, password: str) -> bool:
    """Whether this user may log in with this password."""
    user = user_model.named(name)
    return user is not None and user.is_active and user.check_password(password)


def _new_user(name: str) -> User:
    accounts = user_model.model()
    stated = {accounts.USERNAME_FIELD: name}
    try:
        accounts(**stated).clean_fields(exclude=_fields_but(accounts, accounts.USERNAME_FIELD))
    except ValidationError as error:
        raise BadInput(f"{name!r} cannot be a user's name: {' '.join(error.messages)}") from None
    try:
        return accounts._default_manager.create_user(**stated)
    except (AttributeError, TypeError, ValueError, DatabaseError):
        raise BadInput(
            f"there is no user {name!r}, and {accounts._meta.label} needs more than a name: make the "
            "account first"
        ) from None


def _fields_but(accounts: Any, name: str) -> set[str]:
    return {field.name for field in accounts._meta.fields} - {name}
