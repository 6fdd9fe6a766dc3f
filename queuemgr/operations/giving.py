"""What somebody who edits accounts and groups may give to others: what they hold themselves, and no more.

Otherwise whoever may edit accounts could gain every permission: by a group, by somebody else's password, by a
group they are in. Superusers may give all there is.
"""

from __future__ import annotations

from django.contrib.auth.models import Group, Permission
from django.db.models import Q, QuerySet

from queuemgr.operations.user_model import User


def givable_permissions(giver: User) -> QuerySet[Permission]:
    """The permissions that this person may put into a group."""
    return Permission.objects.filter(pk__in=_held_by(giver))


def givable_groups(giver: User) -> QuerySet[Group]:
    """The groups that this person may put somebody into: those that give no more than they hold."""
    beyond = Permission.objects.exclude(pk__in=_held_by(giver))
    return Group.objects.exclude(pk__in=Group.objects.filter(permissions__in=beyond).values("pk"))


def may_edit_group(giver: User, group: Group) -> bool:
    return givable_groups(giver).filter(pk=group.pk).exists()


def may_edit_user(giver: User, user: User) -> bool:
    """Whether this account, also while it is not active, holds no more than the giver."""
    if giver.is_superuser or user.pk == giver.pk:
        return True
    given = Permission.objects.filter(Q(user=user) | Q(group__user=user))
    return not user.is_superuser and not given.exclude(pk__in=_held_by(giver)).exists()


def _held_by(giver: User) -> list[int]:
    held = giver.get_all_permissions()
    every = Permission.objects.values_list("pk", "content_type__app_label", "codename")
    return [pk for pk, app, name in every if giver.is_superuser or f"{app}.{name}" in held]
