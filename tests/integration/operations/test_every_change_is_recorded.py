"""Whatever a person alters, through the admin or a command, leaves a row that says who, what and why."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from queuemgr.base.errors import BadInput
from queuemgr.flows.retry_policy import POLICIES
from queuemgr.models import AuditEntry, Queue, RetryPolicy
from queuemgr.operations import controls, roles, users
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows, retry_policies

pytestmark = pytest.mark.django_db
ANN = Actor("ann", "admin", "because")
PASSWORD = "correct horse battery staple"


def queue(*arguments: str) -> str:
    out = StringIO()
    call_command("queue", *arguments, stdout=out)
    return out.getvalue()


def the_change() -> tuple[str, str, str, str]:
    change = AuditEntry.objects.get()
    return change.actor, change.source, change.action, change.target


@pytest.fixture
def someone() -> User:
    return User.objects.create_user("kim", password="old", email="kim@example.org")


def posted_user(user: User, **changed: Any) -> dict[str, Any]:
    joined = user.date_joined
    return {
        "username": user.username, "email": user.email, "first_name": "", "last_name": "",
        "is_active": "on", "date_joined_0": f"{joined:%Y-%m-%d}", "date_joined_1": f"{joined:%H:%M:%S}",
        **changed,
    }  # fmt: skip


def test_a_change_of_a_user_is_recorded_with_the_values_before(superuser: Client, someone: User) -> None:
    roles.make()
    operators = Group.objects.get(name="operator")
    permission = Permission.objects.get(codename="edit_payload")
    sent = posted_user(
        someone, is_staff="on", groups=[operators.pk], user_permissions=[permission.pk],
        email="kim@example.com",
    )  # fmt: skip
    url = reverse("admin:auth_user_change", args=[someone.pk])
    assert superuser.post(url, sent).status_code == 302
    assert the_change() == ("root", "admin", "edit user", "user kim")
    change = AuditEntry.objects.get()
    assert change.before == {
        "email": "kim@example.org", "is_staff": False, "groups": [], "permissions": [],
    }  # fmt: skip
    assert change.after == {
        "email": "kim@example.com", "is_staff": True, "groups": ["operator"],
        "permissions": ["queuemgr.edit_payload"],
    }  # fmt: skip
    assert superuser.post(url, sent).status_code == 302
    assert AuditEntry.objects.count() == 1, "an edit that altered nothing was recorded"


def test_adding_and_deleting_users_is_recorded_without_passwords(superuser: Client) -> None:
    sent = {"username": "new", "password1": PASSWORD, "password2": PASSWORD,
            "usable_password": "true"}  # fmt: skip
    superuser.post(reverse("admin:auth_user_add"), sent)
    assert the_change() == ("root", "admin", "add user", "user new")
    new = User.objects.get(username="new")
    superuser.post(reverse("admin:auth_user_delete", args=[new.pk]), {"post": "yes"})
    deleted = AuditEntry.objects.latest("pk")
    assert (deleted.action, deleted.before["username"]) == ("delete user", "new")
    entries = str(list(AuditEntry.objects.values()))
    assert PASSWORD not in entries
    assert new.password not in entries


def test_many_users_deleted_at_once_leave_a_row_each(superuser: Client, someone: User) -> None:
    other = User.objects.create_user("lee")
    chosen = {"action": "delete_selected", "_selected_action": [someone.pk, other.pk], "post": "yes"}
    superuser.post(reverse("admin:auth_user_changelist"), chosen)
    assert not User.objects.filter(username__in=("kim", "lee")).exists()
    assert {c.target for c in AuditEntry.objects.all()} == {"user kim", "user lee"}


def test_groups_edited_in_the_admin_are_recorded(superuser: Client) -> None:
    permission = Permission.objects.get(codename="edit_payload")
    superuser.post(reverse("admin:auth_group_add"), {"name": "night shift", "permissions": []})
    group = Group.objects.get(name="night shift")
    url = reverse("admin:auth_group_change", args=[group.pk])
    superuser.post(url, {"name": "night shift", "permissions": [permission.pk]})
    added, edited = AuditEntry.objects.order_by("pk")
    assert (added.action, added.target) == ("add group", "group night shift")
    assert (edited.before, edited.after) == (
        {"permissions": []}, {"permissions": ["queuemgr.edit_payload"]},
    )  # fmt: skip


def test_setting_anothers_password_is_recorded(superuser: Client, someone: User) -> None:
    url = reverse("admin:auth_user_password_change", args=[someone.pk])
    sent = {"password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}
    refused = superuser.post(url, {**sent, "password2": "mistyped"})
    assert refused.status_code == 200
    assert not AuditEntry.objects.exists()
    assert superuser.post(url, sent).status_code == 302
    assert the_change() == ("root", "admin", "set password", "user kim")
    assert AuditEntry.objects.get().after == {"password": "usable"}


def test_setting_ones_own_password_is_recorded(staff: Callable[..., Client]) -> None:
    client = staff()
    sam = User.objects.get(username="sam")
    sam.set_password("old")
    sam.save()
    client.force_login(sam)
    sent = {"old_password": "old", "new_password1": PASSWORD, "new_password2": PASSWORD}
    assert client.post(reverse("admin:password_change"), sent).status_code == 302
    sam.refresh_from_db()
    assert sam.check_password(PASSWORD)
    assert the_change() == ("sam", "admin", "set password", "user sam")


def test_the_history_of_a_user_is_the_record_of_changes(superuser: Client, someone: User) -> None:
    users.record_password(someone, ANN)
    page = superuser.get(reverse("admin:auth_user_history", args=[someone.pk]), follow=True)
    assert [row.target for row in page.context["cl"].result_list] == ["user kim"]


def test_a_superuser_made_by_command_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    options = {"interactive": False, "username": "boss", "email": "b@example.org", "verbosity": 0}
    call_command("createsuperuser", **options)
    assert the_change() == (getpass.getuser(), "command", "add user", "user boss")
    assert AuditEntry.objects.get().after["is_superuser"] is True


def test_a_password_set_by_command_is_recorded(someone: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getpass", lambda prompt: PASSWORD)
    call_command("changepassword", "kim", stdout=StringIO())
    assert the_change() == (getpass.getuser(), "command", "set password", "user kim")


def test_a_role_given_by_command_is_recorded_and_replaces_the_one_before() -> None:
    output = queue("user", "ann", "--role", "viewer")
    assert "ann is viewer; set a password" in output
    queue("user", "ann", "--role", "operator", "--reason", "on duty")
    ann = User.objects.get(username="ann")
    assert (ann.is_staff, [g.name for g in ann.groups.all()]) == (True, ["operator"])
    added, edited = AuditEntry.objects.order_by("pk")
    assert (added.action, edited.reason) == ("add user", "on duty")
    assert (edited.before, edited.after) == ({"groups": ["viewer"]}, {"groups": ["operator"]})
    queue("user", "ann", "--role", "none")
    ann.refresh_from_db()
    assert (ann.is_staff, ann.groups.count()) == (False, 0)


def test_a_name_no_user_can_have_is_refused() -> None:
    with pytest.raises(BadInput, match="cannot be a user's name"):
        users.give_role("a b\n", "viewer", ANN)


def test_enqueueing_by_command_leaves_one_audit_entry_however_much_it_is(tmp_path: Path) -> None:
    limit_rows.sync()
    queue("enqueue", "--flow", "probe", "--count", "3", "--key-prefix", "p", "--priority", "high")
    change = AuditEntry.objects.get()
    assert (change.actor, change.action, change.target) == (getpass.getuser(), "enqueue", "probe")
    assert (change.after, change.affected) == ({"new": 3, "priority": "high"}, 3)
    queue("enqueue", "--flow", "probe", "--count", "3", "--key-prefix", "p")
    assert AuditEntry.objects.count() == 1, "nothing new went in"
    lines = tmp_path / "ids.txt"
    lines.write_text("arXiv:2101.00001\narXiv:2101.00002\nno such thing\n")
    with pytest.raises(SystemExit):
        queue("import", str(lines))
    assert AuditEntry.objects.latest("pk").affected == 2


def test_a_changed_setting_is_recorded_with_settings_as_the_actor(configure: Callable[..., None]) -> None:
    limit_rows.sync()
    assert not AuditEntry.objects.exists(), "rows made for the first time are no change"
    controls.edit_limit("phase:prep", ANN, max_running=7)
    configure(max_prep=11, max_pending=50)
    limit_rows.sync()
    change = AuditEntry.objects.get(target="phase:prep", actor="settings")
    assert (change.before, change.after) == ({"max_running": 7}, {"max_running": 11})
    queues = AuditEntry.objects.filter(action="edit queue", actor="settings")
    assert queues.count() == Queue.objects.count()
    limit_rows.sync()
    assert AuditEntry.objects.filter(target="phase:prep").count() == 2


def test_a_limit_given_on_a_command_line_is_recorded_with_the_person_as_actor(
    configure: Callable[..., None],
) -> None:
    configure(max_prep=11)
    limit_rows.sync()
    limit_rows.sync(forced={"max_prep"})
    assert not AuditEntry.objects.exists(), "what was so already is no change"
    controls.edit_limit("phase:prep", ANN, max_running=7)
    limit_rows.sync(forced={"max_prep"})
    change = AuditEntry.objects.latest("pk")
    assert (change.actor, change.source, change.after) == (
        getpass.getuser(), "command", {"max_running": 11},
    )  # fmt: skip


def test_a_policy_edited_before_any_worker_started_is_not_overwritten_by_defaults() -> None:
    assert not RetryPolicy.objects.exists()
    controls.edit_policy("network", "", ANN, max_attempts=2)
    retry_policies.make_missing()
    limit_rows.sync()
    assert retry_policies.policy_for("network", "prep").max_attempts == 2
    assert retry_policies.policy_for("timeout", "prep") == POLICIES["timeout"]
    assert [c.actor for c in AuditEntry.objects.all()] == ["ann"]


def test_a_queues_cap_can_be_set_before_any_worker_started() -> None:
    controls.edit_queue("prep.low", ANN, max_pending=5)
    limit_rows.sync()
    assert Queue.objects.get(name="prep.low").max_pending == 5


def test_a_reason_is_stored_without_secrets_and_cut_to_its_maximum_length() -> None:
    secret = "see https://ann:hunter2@example.org/ticket "
    controls.edit_policy("network", "", Actor("ann", "command", secret + "x" * 500), max_attempts=2)
    reason = AuditEntry.objects.get().reason
    assert "hunter2" not in reason
    assert len(reason) == 200
