"""Whoever edits accounts and groups gives what they hold themselves, and no more: by role and permission."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.test import Client, RequestFactory
from django.urls import reverse

from queuemgr.models import AuditEntry
from queuemgr.operations import giving, roles

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]

MANAGER = "manager"
"""A group made by a site: it edits accounts and groups, and may do nothing else."""

MANAGES = [f"{verb}_{what}" for verb in ("view", "add", "change", "delete") for what in ("user", "group")]
SUPERUSER = "superuser"
GIVERS = (MANAGER, roles.ADMIN, SUPERUSER)


def someone(role: str, name: str = "") -> User:
    roles.make()
    group, new = Group.objects.get_or_create(name=role)
    if new and role == MANAGER:
        group.permissions.set(Permission.objects.filter(codename__in=MANAGES))
    user = User.objects.create_user(name or f"some-{role}", is_staff=True, is_superuser=role == SUPERUSER)
    if role != SUPERUSER:
        user.groups.add(group)
    return User.objects.get(pk=user.pk)


def browser_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def names(permissions: Iterable[Permission]) -> set[str]:
    return {f"{p.content_type.app_label}.{p.codename}" for p in permissions}


def held_by(user: User) -> set[str]:
    every = names(Permission.objects.select_related("content_type"))
    return {name for name in every if user.has_perm(name)}


def put(client: Client, group: Group, permissions: Iterable[Permission]) -> Any:
    page = reverse("admin:auth_group_change", args=[group.pk])
    return client.post(page, {"name": group.name, "permissions": [p.pk for p in permissions]})


def edit(client: Client, user: User, **changed: Any) -> Any:
    joined = user.date_joined
    form = {
        "username": user.username, "is_active": "on", "date_joined_0": f"{joined:%Y-%m-%d}",
        "date_joined_1": f"{joined:%H:%M:%S}", **changed,
    }  # fmt: skip
    return client.post(reverse("admin:auth_user_change", args=[user.pk]), form)


def offered(client: Client, page: str, field: str) -> set[int]:
    form = client.get(page).context["adminform"].form
    return {row.pk for row in form.fields[field].queryset} if field in form.fields else set()


@pytest.mark.parametrize("role", GIVERS)
def test_a_group_is_offered_exactly_the_permissions_that_its_editor_holds(role: str) -> None:
    giver = someone(role)
    client = browser_of(giver)
    theirs = held_by(giver)
    assert (
        names(
            Permission.objects.filter(pk__in=offered(client, reverse("admin:auth_group_add"), "permissions"))
        )
        == theirs
    )
    assert (theirs == held_by(someone(SUPERUSER, "root"))) == (role == SUPERUSER)


@pytest.mark.parametrize("role", GIVERS)
def test_no_permission_beyond_the_editors_own_reaches_a_group_alone_or_among_others(
    role: str, rf: RequestFactory
) -> None:
    giver = someone(role)
    client, theirs, group = browser_of(giver), held_by(giver), Group.objects.create(name="new")
    every = list(Permission.objects.select_related("content_type"))
    own = [one.pk for one in every if names([one]) <= theirs]
    request: Any = rf.get("/")
    request.user = giver
    form = admin.site._registry[Group].get_form(request, group, change=True)
    for number, one in enumerate(every):
        if number % 5 and one.pk in own:
            continue  # they are all put in below
        for chosen in ([one.pk], [*own[:3], one.pk]):
            is_valid = form({"name": "new", "permissions": chosen}, instance=group).is_valid()
            assert is_valid == (one.pk in own), one
    assert put(client, group, every).status_code == (302 if role == SUPERUSER else 200)
    assert role == SUPERUSER or group.permissions.count() == 0
    assert put(client, group, Permission.objects.filter(pk__in=own)).status_code == 302
    assert names(group.permissions.select_related("content_type")) == theirs


@pytest.mark.parametrize("role", [roles.VIEWER, roles.OPERATOR])
def test_who_may_not_edit_groups_gives_nothing(role: str) -> None:
    client, group = browser_of(someone(role)), Group.objects.create(name="new")
    assert put(client, group, Permission.objects.all()[:1]).status_code == 403
    assert group.permissions.count() == 0


@pytest.mark.parametrize("role", GIVERS)
def test_a_role_is_given_by_those_who_hold_all_of_it(role: str) -> None:
    giver, friend = someone(role), someone(roles.VIEWER, "friend")
    client, theirs = browser_of(giver), held_by(giver)
    Group.objects.create(name="with-sessions").permissions.add(
        Permission.objects.get(codename="delete_session")
    )
    if role == MANAGER:
        friend.groups.clear()  # a manager holds none of the roles
    for group in Group.objects.all():
        may = names(group.permissions.select_related("content_type")) <= theirs
        before = set(friend.groups.all())
        answer = edit(client, friend, groups=[group.pk])
        assert answer.status_code == (302 if may else 200), group
        assert set(friend.groups.all()) == ({group} if may else before), group
    page = reverse("admin:auth_user_change", args=[friend.pk])
    assert offered(client, page, "groups") == {g.pk for g in giving.givable_groups(giver)}


@pytest.mark.parametrize(
    ("other", "inactive"),
    [(roles.VIEWER, False), (roles.ADMIN, True), (SUPERUSER, True), ("single permission", False)],
)
def test_an_account_that_holds_more_than_its_editor_is_not_edited(other: str, inactive: bool) -> None:
    """Nor is its password set, nor is it deleted, nor its group changed; also while it is not active."""
    client = browser_of(someone(MANAGER))
    above = someone(other if other != "single permission" else MANAGER, "above")
    if other == "single permission":
        above.user_permissions.add(Permission.objects.get(codename="pause_limit"))
    User.objects.filter(pk=above.pk).update(is_active=not inactive)
    before = User.objects.filter(pk=above.pk).values().get()
    for page in ("auth_user_change", "auth_user_password_change", "auth_user_delete"):
        sent = {
            "username": "mine",
            "password1": "another-one-42",
            "password2": "another-one-42",
            "post": "yes",
        }
        assert client.post(reverse(f"admin:{page}", args=[above.pk]), sent).status_code == 403, page
    chosen = {"action": "delete_selected", "_selected_action": [above.pk], "post": "yes"}
    client.post(reverse("admin:auth_user_changelist"), chosen)
    assert User.objects.filter(pk=above.pk).values().get() == before
    for group in above.groups.exclude(name=MANAGER):
        assert put(client, group, []).status_code == 403
        assert (
            client.post(reverse("admin:auth_group_delete", args=[group.pk]), {"post": "yes"}).status_code
            == 403
        )
        assert group.permissions.exists()


@pytest.mark.parametrize("role", [MANAGER, roles.ADMIN])
def test_nobody_but_a_superuser_sets_a_flag_or_a_single_permission_of_an_account(role: str) -> None:
    giver, friend = someone(role), User.objects.create_user("friend")
    every = [p.pk for p in Permission.objects.all()]
    for user in (friend, giver):
        was = (user.is_staff, user.is_superuser)
        groups = [g.pk for g in user.groups.all()]
        sent = {"is_staff": "on", "is_superuser": "on", "user_permissions": every, "groups": groups}
        assert edit(browser_of(giver), user, **sent).status_code == 302
        user.refresh_from_db()
        assert ((user.is_staff, user.is_superuser), user.user_permissions.count()) == (was, 0)


def test_who_is_given_a_role_may_open_the_admin_and_who_loses_it_may_not() -> None:
    client, friend = browser_of(someone(roles.ADMIN)), User.objects.create_user("friend")
    for groups, staff in (([Group.objects.get(name=roles.VIEWER).pk], True), ([], False)):
        assert edit(client, friend, groups=groups).status_code == 302
        friend.refresh_from_db()
        assert friend.is_staff is staff
    entries = AuditEntry.objects.filter(action="edit user", target="user friend").order_by("pk")
    assert [entry.after.get("is_staff") for entry in entries] == [True, False]


@pytest.mark.parametrize("role", [MANAGER, roles.ADMIN])
def test_no_page_shows_the_digest_of_a_password(role: str) -> None:
    client = browser_of(someone(role))
    root = someone(SUPERUSER, "root")
    root.set_password("a-password-42")
    root.save()
    for page in (reverse("admin:auth_user_change", args=[root.pk]), reverse("admin:auth_user_changelist")):
        answer = client.get(page)
        assert answer.status_code == 200
        assert root.password not in answer.content.decode()
        assert root.password.rpartition("$")[2] not in answer.content.decode()
