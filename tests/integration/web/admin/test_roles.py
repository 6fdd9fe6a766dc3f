"""Who may open what and do what, page by page and act by act: a page nobody decided on fails here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from pipeline.bibliography import FORMATS
from queuemgr.base.errors import BadInput
from queuemgr.models import AuditEntry
from queuemgr.operations import roles
from queuemgr.operations.controls import Actor
from queuemgr.web.act_links import ACT_LINKS
from queuemgr.web.admin.execution_actions import ACTIONS_BY_NAME
from tests.integration.web.admin import every_model
from tests.integration.web.admin.every_model import AdminPage, admin_pages, fingerprint

pytestmark = pytest.mark.django_db

ANYONE, STAFF, VIEWER, OPERATOR, ADMIN, NOBODY = ("anyone", "staff", "viewer", "operator", "admin", "-")
PEOPLE = (ANYONE, STAFF, VIEWER, OPERATOR, ADMIN)
"""From the least to the most; `NOBODY` is more than any of them."""

OWN_PAGES = {
    "index": (STAFF, STAFF),
    "dashboard_page": (VIEWER, VIEWER),
    "dashboard_fragment": (VIEWER, VIEWER),
    "login": (ANYONE, ANYONE),
    "logout": (ANYONE, ANYONE),
    "password_change": (STAFF, STAFF),
    "password_change_done": (STAFF, STAFF),
    "autocomplete": (NOBODY, NOBODY),
    "jsi18n": (STAFF, STAFF),
    "view_on_site": (NOBODY, NOBODY),
    "search": (STAFF, STAFF),
    "app_list": (VIEWER, VIEWER),
    "auth_user_password_change": (ADMIN, ADMIN),
    "queuemgr_auditentry_export": (VIEWER, VIEWER),
    "queuemgr_auditentry_undo": (NOBODY, ADMIN),
    "failures": (VIEWER, VIEWER),
    "step_times": (VIEWER, VIEWER),
    "alerts": (VIEWER, VIEWER),
    "alert_silence": (OPERATOR, OPERATOR),
    "alertsilence_end": (NOBODY, OPERATOR),
    "alert_test": (NOBODY, OPERATOR),
    "savedview_open": (VIEWER, NOBODY),
    "savedview_save": (NOBODY, VIEWER),
    "savedview_delete": (NOBODY, ADMIN),
    "keep_failures": (NOBODY, ADMIN),
    "schedule_timeline": (VIEWER, VIEWER),
    "costs": (VIEWER, VIEWER),
    "search_everything": (STAFF, STAFF),
    "costs_csv": (VIEWER, VIEWER),
    "queuemgr_bulkaction_change": (VIEWER, VIEWER),
    "queuemgr_execution_action": (NOBODY, OPERATOR),
    "batch_close": (NOBODY, OPERATOR),
    "batch_cancel": (NOBODY, OPERATOR),
    **{f"schedule_{act}": (NOBODY, OPERATOR) for act in ("pause", "resume", "run")},
    **{f"schedule_{act}": (NOBODY, ADMIN) for act in ("edit", "payload", "delete")},
    **{f"webhook_{act}": (NOBODY, OPERATOR) for act in ("pause", "resume", "test")},
    **{f"webhook_{act}": (NOBODY, ADMIN) for act in ("edit", "remove")},
    **{f"queuemgr_{kind}_{verb}": (OPERATOR, OPERATOR) for kind, verb in ACT_LINKS},
    "queuemgr_limit_cap": (ADMIN, ADMIN),
    **{f"queuemgr_{kind}_named": (VIEWER, VIEWER) for kind in ("limit", "queue", "worker")},
    "bulk_new": (OPERATOR, OPERATOR),
    "queuemgr_execution_enqueue": (OPERATOR, OPERATOR),
    "bulk_progress": (VIEWER, VIEWER),
    "bulk_stop": (NOBODY, OPERATOR),
    "bulk_resume": (NOBODY, OPERATOR),
}
"""Pages of their own: the least who may open them, and who may send them something. (The change
undone here is that of a limit, which an admin alone may edit.)"""

LOOKED_AT = {
    **dict.fromkeys(
        ("execution", "attempt", "queue", "limit", "allowanceusage", "worker", "retrypolicy", "auditentry",
         "bulkaction", "batch", "schedule", "webhook", "document", "taskresult", "groupresult"),
        VIEWER,
    ),
    **dict.fromkeys(("user", "group", "apitoken"), ADMIN),
}  # fmt: skip
"""The least who may see a model's rows."""

EDITED = {**dict.fromkeys(("limit", "queue", "retrypolicy", "user", "group"), ADMIN)}
ADDED = {**dict.fromkeys(("limit", "retrypolicy", "schedule", "webhook", "user", "group", "apitoken"), ADMIN)}
DELETED = {**dict.fromkeys(("retrypolicy", "user", "group"), ADMIN)}
"""The least who may edit, add and delete rows; of other models, nobody."""

ACTIONS = {
    ("queue", "pause"): OPERATOR,
    ("queue", "resume"): OPERATOR,
    ("schedule", "pause"): OPERATOR,
    ("schedule", "resume"): OPERATOR,
    ("webhook", "pause"): OPERATOR,
    ("webhook", "resume"): OPERATOR,
    ("worker", "drain"): OPERATOR,
    ("worker", "resume"): OPERATOR,
    ("limit", "pause"): OPERATOR,
    ("limit", "resume"): OPERATOR,
    ("limit", "reset_breaker"): OPERATOR,
    ("limit", "remove"): ADMIN,
    ("user", "delete_selected"): ADMIN,
    ("group", "delete_selected"): ADMIN,
    ("execution", "retry"): OPERATOR,
    ("execution", "cancel"): OPERATOR,
    ("execution", "skip"): OPERATOR,
    ("execution", "raise_priority"): OPERATOR,
    ("execution", "lower_priority"): OPERATOR,
    ("execution", "retry_from_start"): OPERATOR,
    ("execution", "reschedule"): OPERATOR,
    ("apitoken", "revoke"): ADMIN,
    **{("document", f"export_{each.suffix}"): VIEWER for each in FORMATS.values()},
    ("document", "reread"): OPERATOR,
}
"""The least who may choose an action in a list."""


PAGE_ACTIONS = {
    **{name: least for (model, name), least in ACTIONS.items() if model == "execution"},
    "set_priority": OPERATOR,
    "retry_with_payload": ADMIN,
}
"""The least who may press a button on the page of an execution."""


def decided(page: str) -> tuple[str, str]:
    """Who may open a page and who may send to it; fails for one that nobody thought of."""
    if page in OWN_PAGES:
        return OWN_PAGES[page]
    model, _, view = page.removesuffix("_").rpartition("_")
    model = model.rpartition("_")[2]
    assert model in LOOKED_AT, f"decide who may open the page {page!r}"
    return {
        "changelist": (LOOKED_AT[model], LOOKED_AT[model]),
        "history": (LOOKED_AT[model], LOOKED_AT[model]),
        "change": (LOOKED_AT[model], EDITED.get(model, NOBODY)),
        "add": (ADDED.get(model, NOBODY),) * 2,
        "delete": (DELETED.get(model, NOBODY),) * 2,
    }[view]


def may(person: str, least: str) -> bool:
    return least != NOBODY and PEOPLE.index(person) >= PEOPLE.index(least)


@pytest.fixture
def client_of(static_root: None) -> Callable[[str], Client]:
    """A browser of someone with this role, or of one on the staff with none, or of nobody."""

    def log_in(person: str) -> Client:
        client = Client()
        if person != ANYONE:
            roles.make()
            user = User.objects.create_user(f"{person}-sam", is_staff=True)
            user.groups.set(Group.objects.filter(name=person))
            client.force_login(user)
        return client

    return log_in


def passed(response: Any) -> bool:
    """Whether the page answered, rather than refused or redirected to the login."""
    to_login = response.status_code == 302 and "/login/" in response["Location"]
    return response.status_code in (200, 302) and not to_login


@pytest.mark.parametrize(
    "person", [ANYONE, pytest.param(STAFF, marks=pytest.mark.slow_proof), VIEWER, OPERATOR, ADMIN]
)
def test_every_page_opens_for_the_intended_roles_and_accepts_nothing_from_others(
    person: str, client_of: Callable[[str], Client]
) -> None:
    """Whoever may not act changes nothing by sending to any page, nor by any action's name."""
    pages = list(admin_pages(every_model.make()))
    client = client_of(person)
    before = fingerprint()
    wrong = []
    for page in pages:
        opens, acts = decided(page.name)
        # What a viewer may see the others may: their roles hold all of the viewer's permissions.
        skipped = page.name == "logout" or (person in (OPERATOR, ADMIN) and may(VIEWER, opens))
        if not skipped and passed(client.get(page.url)) != may(person, opens):
            wrong.append(f"GET {page.name}")
        if may(person, acts) and not page.name.endswith("_changelist"):
            continue  # what it then does is each page's own test
        taken = passed(client.post(page.url, SENT))
        if taken and not page.name.endswith("_changelist"):
            wrong.append(f"POST {page.name}")
        act_on_all(client, person, page)
    assert wrong == []
    after = fingerprint()
    assert {name for name in after if after[name] != before[name]} == set()


def act_on_all(client: Client, person: str, page: AdminPage) -> None:
    """Ask a list for every action this person may not take on it, by name."""
    if page.name.endswith("_changelist"):
        model = page.name.split("_")[-2]
        for action in {"delete_selected", *(act for name, act in ACTIONS if name == model)}:
            if not may(person, ACTIONS.get((model, action), NOBODY)):
                chosen = {"action": action, "_selected_action": [*range(1, 60)]}
                client.post(page.url, {**SENT, **chosen, "select_across": "1"})


@pytest.mark.parametrize("person", PEOPLE)
def test_every_button_of_an_execution_works_for_the_intended_roles_only(
    person: str, client_of: Callable[[str], Client]
) -> None:
    made, client = every_model.make(), client_of(person)
    url = reverse("admin:queuemgr_execution_action", args=[made["execution"].pk])
    assert set(ACTIONS_BY_NAME) == {*PAGE_ACTIONS}, "decide who may"
    for act, least in PAGE_ACTIONS.items():
        before = fingerprint()
        taken = passed(client.post(url, {"act": act, "reason": "x"}))
        assert taken == may(person, least), act
        assert taken or fingerprint() == before, act


SENT = {"post": "yes", "reason": "x", "name": "host:b", "max_running": "1"}


@pytest.mark.parametrize("person", [VIEWER, OPERATOR, ADMIN])
def test_every_action_of_a_list_is_offered_to_the_intended_roles(
    person: str, client_of: Callable[[str], Client], rf: Any
) -> None:
    client_of(person)
    request = rf.get("/")
    request.user = User.objects.get(username=f"{person}-sam")
    for model, page in admin.site._registry.items():
        name = str(model._meta.model_name)
        decided = {action: least for (of, action), least in ACTIONS.items() if of == name}
        theirs = {action for action, least in decided.items() if may(person, least)}
        assert set(page.get_actions(request)) == theirs, f"decide who may: {name}"


def held_by(role: str) -> set[str]:
    roles.make()
    held = Permission.objects.filter(group__name=role).values_list("content_type__app_label", "codename")
    return {f"{app}.{name}" for app, name in held}


def test_each_role_includes_the_permissions_of_the_one_below() -> None:
    assert held_by(VIEWER) < held_by(OPERATOR) < held_by(ADMIN)


def test_a_viewer_may_see_work_but_no_payloads_tokens_or_accounts() -> None:
    held = held_by(VIEWER)
    assert {"queuemgr.view_execution", "queuemgr.view_auditentry", "pipeline.view_document"} <= held
    assert all(".view_" in name for name in held)
    assert not {"queuemgr.view_payload", "queuemgr.view_apitoken", "auth.view_user"} & held


def test_an_operator_steers_work_but_sets_no_limits_and_edits_no_payloads() -> None:
    held = held_by(OPERATOR)
    assert {"queuemgr.view_payload", "queuemgr.pause_limit", "queuemgr.undo_auditentry"} <= held
    only_admins = {"edit_payload", "change_limit", "change_queue", "change_retrypolicy",
                   "add_apitoken"}  # fmt: skip
    assert not {f"queuemgr.{name}" for name in only_admins} & held


def test_a_group_altered_by_hand_stays_so_until_it_is_put_back_which_is_recorded() -> None:
    roles.make()
    group = Group.objects.get(name=OPERATOR)
    group.permissions.remove(Permission.objects.get(codename="retry_execution"))
    assert roles.make() == []
    assert roles.difference(OPERATOR).lacks == ("queuemgr.retry_execution",)
    assert roles.reset(OPERATOR, Actor("ann", "command", "after the upgrade"))
    assert roles.difference(OPERATOR).lacks == ()
    change = AuditEntry.objects.get()
    assert (change.action, change.target) == ("reset role", "group operator")
    assert not roles.reset(OPERATOR, Actor("ann", "command"))


def forget(codename: str) -> None:
    """As before the release that brought it."""
    Permission.objects.filter(codename=codename).delete()


def test_migrate_gives_new_permissions_to_groups_that_nobody_has_changed_and_to_no_other() -> None:
    roles.make()
    forget("pause_schedule")
    changed = Group.objects.get(name=ADMIN)
    changed.permissions.remove(Permission.objects.get(codename="change_limit"))
    call_command("migrate", verbosity=0)
    assert roles.difference(OPERATOR) == roles.Differs((), ())
    assert roles.difference(ADMIN).lacks == ("queuemgr.change_limit", "queuemgr.pause_schedule")


def test_migrate_gives_back_nothing_that_was_taken_from_a_group() -> None:
    roles.make()
    group = Group.objects.get(name=OPERATOR)
    group.permissions.remove(Permission.objects.get(codename="retry_execution"))
    call_command("migrate", verbosity=0)
    call_command("migrate", verbosity=0)
    assert roles.difference(OPERATOR).lacks == ("queuemgr.retry_execution",)


def test_migrate_gives_nothing_to_a_projects_own_group_of_that_name() -> None:
    group = Group.objects.get_or_create(name=OPERATOR)[0]
    group.permissions.clear()
    assert roles.grant_new(frozenset({"auth.view_user"})) == {}


def test_migrate_makes_the_roles() -> None:
    Group.objects.all().delete()
    call_command("migrate", verbosity=0)
    assert set(Group.objects.values_list("name", flat=True)) == set(roles.ROLES)


def test_an_unknown_role_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput, match="'boss'; there are: viewer, operator, admin"):
        roles.permissions_of("boss")


def test_who_may_edit_accounts_makes_no_superuser_and_alters_none(client: Client) -> None:
    roles.make()
    admin_role = User.objects.create_user("adam", is_staff=True)
    admin_role.groups.add(Group.objects.get(name="admin"))
    root = User.objects.create_superuser("root", password="x")
    client.force_login(admin_role)
    own = reverse("admin:auth_user_change", args=[admin_role.pk])
    every = [p.pk for p in Permission.objects.all()]
    joined = admin_role.date_joined
    sent = {
        "username": "adam", "is_active": "on", "is_staff": "on", "is_superuser": "on",
        "groups": [g.pk for g in admin_role.groups.all()], "user_permissions": every,
        "date_joined_0": f"{joined:%Y-%m-%d}", "date_joined_1": f"{joined:%H:%M:%S}",
    }  # fmt: skip
    assert client.post(own, sent).status_code == 302
    admin_role.refresh_from_db()
    assert (admin_role.is_superuser, admin_role.user_permissions.count()) == (False, 0)
    password = {"password1": "another-one-42", "password2": "another-one-42"}
    for page in ("auth_user_change", "auth_user_password_change", "auth_user_delete"):
        answer = client.post(reverse(f"admin:{page}", args=[root.pk]), {**password, "post": "yes"})
        assert answer.status_code == 403, page
    root.refresh_from_db()
    assert root.check_password("x")
