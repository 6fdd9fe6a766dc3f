"""The project's user model, whichever it is: the one place that knows which of its parts may be missing.

Every model has what Django's `AbstractBaseUser` has: a key of any type, the field that `USERNAME_FIELD`
names, `is_active` and a password. All else is there only if it has it: `is_staff`, `is_superuser`, groups,
permissions, an e-mail address.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from django.contrib.auth import get_backends, get_user_model
from django.contrib.auth.backends import BaseBackend, ModelBackend
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import FieldDoesNotExist, ValidationError

from queuemgr.base import transaction
from queuemgr.base.queue_database import alias_of

User = Any
"""An account of the project's model, or `AnonymousUser`."""

OF_THE_QUEUE = "queuemgr"

RECORDED = ("email", "first_name", "last_name", "is_active", "is_staff", "is_superuser")
"""The columns beside the name that an audit entry about an account has, as far as its model has them."""


def model() -> Any:
    return get_user_model()


def in_transaction() -> Any:
    """A transaction where the accounts are, which may be another database than the queue's."""
    return transaction.of(alias_of(model()))


def named(name: str, *, lock: bool = False) -> User | None:
    """The account that logs in by this name; locked, within `in_transaction`."""
    accounts = model()
    with suppress(accounts.DoesNotExist, ValueError, ValidationError):
        found = accounts._default_manager.get_by_natural_key(name.replace("\x00", ""))
        return accounts._default_manager.select_for_update().get(pk=found.pk) if lock else found
    return None


def with_key(key: Any) -> User | None:
    """The account with this primary key, given as it is or as text."""
    accounts = model()
    with suppress(accounts.DoesNotExist, ValueError, ValidationError):
        return accounts._default_manager.get(pk=key)
    return None


def name_of(user: User) -> str:
    return str(user.get_username())


def whole_number(key: Any) -> int | None:
    """A key that is a whole number, as processes of earlier releases read it; None for any other."""
    return key if isinstance(key, int) and 0 <= key < 2**63 else None


def key_text(key: Any) -> str:
    """A key of any type as a row of ours has it; empty for none."""
    return "" if key is None else str(key)


def has_column(name: str) -> bool:
    try:
        return bool(model()._meta.get_field(name).concrete)
    except FieldDoesNotExist:
        return False


def recorded(user: User) -> dict[str, Any]:
    """What an audit entry about this account has, without its groups and permissions."""
    shown = {field: getattr(user, field) for field in RECORDED if has_column(field)}
    return {model().USERNAME_FIELD: name_of(user), **shown}


def has_groups() -> bool:
    """Whether accounts can be in Django's groups, which roles are."""
    return has_column("groups") and model()._meta.get_field("groups").related_model is Group


def names_in_group(group: str) -> list[str]:
    """The names of the accounts in this group, sorted."""
    if not has_groups():
        return []
    field = model().USERNAME_FIELD
    found = model()._default_manager.filter(groups__name=group).order_by(field)
    return [str(name) for name in found.values_list(field, flat=True)]


def has_own_permissions() -> bool:
    return has_column("user_permissions")


def view_permission() -> str:
    """The permission to see accounts, such as `auth.view_user`."""
    options = model()._meta
    return f"{options.app_label}.view_{options.model_name}"


def active() -> Any:
    """The accounts that are not known to be inactive."""
    accounts = model()._default_manager
    return accounts.filter(is_active=True) if has_column("is_active") else accounts.all()


def superusers() -> Any:
    """The accounts that may do everything, as far as their model says so."""
    accounts = model()._default_manager
    return accounts.filter(is_superuser=True) if has_column("is_superuser") else accounts.none()


def completed(user: User) -> User:
    """The same account, with the questions about permissions that Django's admin asks, where its model lacks
    them: on the row, not on the class, so that the project's own code sees its model as it was."""
    if not hasattr(user, "has_perm"):
        user.has_perm = partial(_has_perm, user)
    if not hasattr(user, "has_perms"):
        user.has_perms = partial(_has_perms, user)
    if not hasattr(user, "has_module_perms"):
        user.has_module_perms = partial(_has_module_perms, user)
    if not hasattr(user, "is_superuser"):
        user.is_superuser = False
    if not hasattr(user, "is_staff"):
        user.is_staff = user.is_active and user.has_module_perms(OF_THE_QUEUE)
    return user


def may_open_pages(user: User) -> bool:
    """Whether this account may open a site of ours: active, and staff if its model knows staff; else whoever
    has any permission of the queue."""
    return bool(user.is_active and completed(user).is_staff)


def can_be_allowed_anything() -> bool:
    """Whether anything says what accounts of this model may do: it, or a backend of the project's own."""
    accounts = model()
    asked = ("has_perm", "is_superuser")
    return any(hasattr(accounts, name) for name in asked) or any(map(_says_something, _deciding()))


def _has_perm(user: User, permission: str, obj: Any = None) -> bool:
    """As Django's `PermissionsMixin` answers, by whatever the model and the backends have."""
    if not user.is_active:
        return False
    if getattr(user, "is_superuser", False):
        return True
    return any(backend.has_perm(user, permission, obj) for backend in _deciding())


def _has_perms(user: User, permissions: Iterable[str], obj: Any = None) -> bool:
    return all(user.has_perm(permission, obj) for permission in permissions)


def _has_module_perms(user: User, app_label: str) -> bool:
    held = Permission.objects.filter(content_type__app_label=app_label).values_list("codename", flat=True)
    return any(user.has_perm(f"{app_label}.{name}") for name in held)


def _deciding() -> list[Any]:
    """The backends that can answer: Django's own reads the columns of a model with permissions."""
    mixed_in = has_groups() and has_own_permissions()
    asked = [backend for backend in get_backends() if hasattr(backend, "has_perm")]
    return [each for each in asked if mixed_in or type(each).has_perm is not ModelBackend.has_perm]


def _says_something(backend: Any) -> bool:
    """Whether it states any permission: `BaseBackend` alone states none."""
    asked = ("has_perm", "get_all_permissions", "get_user_permissions", "get_group_permissions")
    return any(getattr(type(backend), name, None) is not getattr(BaseBackend, name) for name in asked)
