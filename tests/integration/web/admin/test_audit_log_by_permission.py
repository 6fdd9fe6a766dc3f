"""The audit log is for everybody who may see it, but for entries about what the reader may not see."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from queuemgr.models import AuditEntry
from queuemgr.operations import api_tokens, audit_log, executions, logins, roles, users
from queuemgr.operations.controls import Actor
from tests.integration.web.admin import every_model
from tests.integration.web.admin.admin_pages import page, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]

ROOT = Path(__file__).parents[4]


def someone(role: str, name: str) -> User:
    roles.make()
    user = User.objects.create_user(name, is_staff=True)
    user.groups.set(Group.objects.filter(name=role))
    return user


BEHIND = {
    "payload": ("queuemgr.view_payload", roles.OPERATOR),
    "token": ("queuemgr.view_apitoken", roles.ADMIN),
    "user": ("auth.view_user", roles.ADMIN),
    "group": ("auth.view_group", roles.ADMIN),
}
"""What a viewer may not see, its permission, and the least role that has it."""


def recorded_about(what: str, by: Actor, made: dict[str, Any]) -> None:
    """Every entry that the audit log gets about such a thing, each by the code that makes it."""
    secret = {"email": "zqhidden@example.org"}
    if what == "payload":
        executions._set_payload(made["execution"], {"tenant": "zqhidden"}, by)
    elif what == "token":
        token = api_tokens.make("zqhidden-token", made["user"], ["read"], by).token
        api_tokens.revoke([token], by)
    elif what == "user":
        user = User.objects.create_user("zqhidden-user", **secret)
        users.record("add", user, {}, by)
        users.record("edit", user, {"email": "before@example.org"}, by)
        users.record_password(user, by)
        logins.record_failure("zqhidden-user", "192.0.2.1")
        users.record_removal(user, by)
    else:
        group = Group.objects.create(name="zqhidden-group")
        users.record("add", group, {}, by)
        users.record("edit", group, {"name": "zqhidden-before"}, by)
        users.record_removal(group, by)
        Group.objects.get(name=roles.VIEWER).permissions.clear()
        roles.reset(roles.VIEWER, by)


@pytest.mark.parametrize("what", BEHIND)
def test_the_audit_log_tells_nothing_of_what_the_reader_may_not_see(client: Client, what: str) -> None:
    made, newest = every_model.make(), AuditEntry.objects.latest("pk").pk
    reader = someone(roles.VIEWER, "reader")
    recorded_about(what, Actor("zqhidden-actor", "zqhidden-source", "zqhidden-reason"), made)
    entries = AuditEntry.objects.filter(pk__gt=newest)
    assert entries
    least = BEHIND[what][1]
    for person, sees in ((reader, False), (someone(least, "who-may"), True)):
        client.force_login(person)
        assert ("zqhidden" in text_of(client.get(page("auditentry")))) == sees
        for entry in entries:
            asked = (
                {"q": entry.target},
                {"actor": entry.actor},
                {"action": entry.action},
                {"target": entry.target},
            )
            for query in asked:
                found = client.get(page("auditentry"), query).context["cl"].result_list
                assert (entry in found) == sees, (entry, query)
            own = client.get(page("auditentry", entry.pk, view="change"))
            assert (own.status_code == 200) == sees, entry
        for kind in ("csv", "jsonl"):
            file = client.get(reverse("admin:queuemgr_auditentry_export", args=[kind]))
            assert ("zqhidden" in b"".join(file).decode()) == sees, kind


def test_every_entry_about_an_account_is_decided() -> None:
    """A new action on what a viewer may not see belongs into `audit_log.needed`."""
    recorded = re.compile(r'"([a-z]+ (?:user|group|token|password|payload|login|role))"')
    files = (ROOT / "queuemgr/operations").rglob("*.py")
    named = {action for path in files for action in recorded.findall(path.read_text())}
    assert named <= audit_log.needed().keys(), named - audit_log.needed().keys()
